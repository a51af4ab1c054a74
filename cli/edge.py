"""What people describe at the edge, and what may be said of each: `windlass developer`, …"""

from cli.records import Flag, Noun

NOUNS = (
    Noun(
        *(
            "developer",
            "Developer",
            "developer",
            ("key.name",),
            "NAME",
            "Developers, who own apps.",
        ),
        (
            Flag("email", "email", "Where they get mail.", wide=False),
            Flag("username", "username", "Their user name."),
            Flag("passhash", "passhash", "The hash of their password."),
            Flag("postal-address", "address", "Where they live."),
        ),
    ),
    Noun(
        *("operator", "Operator", "operator", ("key.name",), "NAME"),
        "Operators, who own cloudlets.",
        updates=False,
    ),
    Noun(
        *("flavor", "Flavor", "flavor", ("key.name",), "NAME", "Sizes that things come in."),
        (
            Flag("ram", "ram", "MB of memory.", wide=False),
            Flag("vcpus", "vcpus", "Virtual processors.", wide=False),
            Flag("disk", "disk", "GB of disk.", wide=False),
        ),
        updates=False,
    ),
    Noun(
        *("cluster-template", "Cluster", "cluster", ("key.name",), "NAME"),
        "Templates of clusters at the edge.",
        (Flag("flavor", "default_flavor.name", "The flavor of nodes.", wide=False),),
        updates=False,
    ),
    Noun(
        *("app", "App", "app"),
        ("key.developer_key.name", "key.name", "key.version"),
        "DEVELOPER/NAME/VERSION",
        "Apps, as their developers describe them.",
        (
            Flag("image-type", "image_type", "docker or qcow.", wide=False),
            Flag("image-path", "image_path", "Where the image is."),
            Flag("ports", "access_ports", "Such as tcp:80,udp:53.", wide=False),
            Flag("flavor", "default_flavor.name", "The size of instances.", wide=False),
            Flag("deployment", "deployment", "kubernetes, vm, helm, docker.", wide=False),
            Flag("command", "command", "What is run."),
            Flag("config", "config", "The text, or a URL."),
            Flag("manifest", "deployment_manifest", "The text, or a URL."),
            Flag("generator", "deployment_generator", "What makes the manifest."),
            Flag("public-key", "auth_public_key", "Whose tokens it takes."),
            Flag("android-package", "android_package_name", "The phone's side of it."),
            Flag("annotations", "annotations", "Notes."),
            Flag("delete", "del_opt", "AutoDelete or NoAutoDelete."),
        ),
    ),
    Noun(
        *("cloudlet", "Cloudlet", "cloudlet"),
        ("key.operator_key.name", "key.name"),
        "OPERATOR/NAME",
        "Cloudlets, as their operators describe them.",
        (
            Flag("latitude", "location.latitude", "From -90 to 90.", wide=False),
            Flag("longitude", "location.longitude", "From -180 to 180.", wide=False),
            Flag("dynamic-ips", "num_dynamic_ips", "Public addresses.", wide=False),
            Flag("access-uri", "access_uri", "Where its operator is reached."),
        ),
    ),
)
