"""What people describe at the edge, and what may be said of each: `windlass developer`, …"""

from cli.records import Flag, Noun

FOLLOWED_SECONDS = 3600.0
"""As long as resource managers are waited for, and longer. Whoever stops before stops nothing."""

STATE = Flag("state", "state", "How it stands, such as ready.", wide=False, given=False)
OVERRIDE = Flag(
    *("override", "crm_override"),
    "ignore-crm-errors, ignore-crm, ignore-transient-state or ignore-crm-and-transient-state.",
)

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
    Noun(
        *("clusterinst", "ClusterInst", "clusterinst"),
        (
            *("key.developer", "key.cloudlet_key.operator_key.name", "key.cloudlet_key.name"),
            "key.cluster_key.name",
        ),
        "DEVELOPER/OPERATOR/CLOUDLET/NAME",
        "Clusters on cloudlets.",
        (
            STATE,
            Flag("flavor", "flavor.name", "The size of its machines.", wide=False),
            Flag("masters", "num_masters", "0 or 1."),
            Flag("nodes", "num_nodes", "Of these there may be others later.", wide=False),
            Flag("ip-access", "ip_access", "shared, dedicated or dedicated-or-shared."),
            Flag("deployment", "deployment", "kubernetes or docker."),
        ),
        manners=(OVERRIDE,),
        seconds=FOLLOWED_SECONDS,
    ),
    Noun(
        *("appinst", "AppInst", "app_inst"),
        (
            *("key.app_key.developer_key.name", "key.app_key.name", "key.app_key.version"),
            "key.cluster_inst_key.cloudlet_key.operator_key.name",
            *("key.cluster_inst_key.cloudlet_key.name", "key.cluster_inst_key.cluster_key.name"),
            "key.cluster_inst_key.developer",
        ),
        "DEVELOPER/APP/VERSION/OPERATOR/CLOUDLET/CLUSTER[/DEVELOPER]",
        "Apps on cloudlets. A cluster autocluster… is made for the app.",
        (
            STATE,
            Flag("uri", "uri", "Where it is reached.", wide=False),
            Flag("flavor", "flavor.name", "Its size, if not its app's."),
            Flag("ip-access", "auto_cluster_ip_access", "Of a cluster made for it."),
        ),
        updates=False,
        manners=(OVERRIDE,),
        seconds=FOLLOWED_SECONDS,
        inherits="key.app_key.developer_key.name",
        spared=("key.cluster_inst_key.cluster_key.name", "key.cluster_inst_key.developer"),
    ),
)
