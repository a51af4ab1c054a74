"""Every way in which the edge contract says no, in one table.

Clients compare these texts byte for byte, and some know no other code than UNKNOWN; so text, kind
and what to do about it are written down once, here, and raised by name. The name is also the reason
that programs read."""

from enum import Enum

from domain.errors import (
    AlreadyExists,
    Conflict,
    DomainError,
    Exhausted,
    Failed,
    Invalid,
    NotFound,
    Overdue,
    Unavailable,
    Unsupported,
)

VM_NEEDS_NONE = "ClusterInst is not needed for deployment type vm, just create an AppInst directly"


class Refusal(Enum):
    KEY_TAKEN = AlreadyExists, "Key already exists", "delete it first, or choose another key"
    KEY_UNKNOWN = NotFound, "Key not found", "show what there is"
    KEY_TOO_LONG = Invalid, "key is longer than {most} bytes", "choose shorter names"
    FIELD_UNKNOWN = Invalid, "unknown field path {path}", "name fields by their numbers, as in 5.1"

    ENUM_UNKNOWN = Invalid, "invalid {enum}", ""

    DEVELOPER_NAME = Invalid, "Invalid developer name", ""
    OPERATOR_NAME = Invalid, "Invalid operator name", ""
    FLAVOR_NAME = Invalid, "Invalid flavor name", ""
    CLUSTER_NAME = Invalid, "Invalid cluster name", ""
    CLOUDLET_NAME = Invalid, "Invalid cloudlet name", ""
    APP_NAME = Invalid, "Invalid app name", ""
    APP_VERSION = Invalid, "Invalid app version string", ""

    OPERATOR_RESERVED = Invalid, "Cannot create operator with name = developer", ""
    CLUSTER_RESERVED = Invalid, 'Cluster name prefix "autocluster" is reserved', ""

    FLAVOR_RAM = Invalid, "Ram cannot be 0", ""
    FLAVOR_VCPUS = Invalid, "Vcpus cannot be 0", ""
    FLAVOR_DISK = Invalid, "Disk cannot be 0", ""
    FLAVOR_UPDATE = Unsupported, "Update flavor not supported", "create another flavor"
    CLUSTER_UPDATE = Unsupported, "Update cluster not supported", "delete it and create it anew"
    CLUSTER_FLAVOR = Conflict, "default flavor {name} not found", "create the flavor first"

    CLOUDLET_IPS = Invalid, "Only dynamic IPs are supported currently", ""
    CLOUDLET_IPS_STATIC = Unsupported, "Only dynamic IPs are supported currently", ""
    CLOUDLET_NO_IP = Invalid, "Must specify at least one dynamic public IP available", ""
    CLOUDLET_NO_LOCATION = Invalid, "location is missing; 0,0 is not a valid location", ""
    CLOUDLET_LATITUDE = Invalid, "Invalid latitude value", "choose one from -90 to 90"
    CLOUDLET_LONGITUDE = Invalid, "Invalid longitude value", "choose one from -180 to 180"
    CLOUDLET_LATITUDE_ZERO = Invalid, "Invalid latitude value of 0", "name only what changes"
    CLOUDLET_LONGITUDE_ZERO = Invalid, "Invalid longitude value of 0", "name only what changes"
    CLOUDLET_IP_SUPPORT = Invalid, "invalid IpSupport", ""
    CLOUDLET_FEW_IPS = (
        *(Invalid, "Cannot specify less than one dynamic IP unless Ip Support Static is specified"),
        "",
    )

    CLOUDLET_IPS_IN_USE = (
        *(Conflict, "Cannot specify fewer dynamic IPs than are in use"),
        "delete dedicated clusters first",
    )
    CLOUDLET_UNKNOWN = Conflict, "Specified cloudlet not found", "create the cloudlet first"
    CLOUDLET_NOT_READY = (
        *(Unavailable, "Cloudlet {key} not ready, state is CLOUDLET_STATE_{state}"),
        "look at its resource manager, and try again",
    )

    DEVELOPER_IN_USE = Conflict, "Developer in use by Application", "delete its apps first"
    DEVELOPER_HAS_CLUSTER = (
        *(Conflict, "Developer in use by ClusterInst"),
        "delete its clusters first",
    )
    OPERATOR_IN_USE = Conflict, "Operator in use by Cloudlet", "delete its cloudlets first"
    FLAVOR_IN_CLUSTER = Conflict, "Flavor in use by Cluster", "delete its clusters first"
    FLAVOR_IN_USE = Conflict, "Flavor in use by App", "delete the apps first"
    FLAVOR_IN_INSTANCE = Conflict, "Flavor in use by App Instance", "delete the instances first"
    FLAVOR_IN_TEMPLATE = (
        *(Conflict, "Flavor in use by Cluster template"),
        "delete the cluster templates first",
    )
    CLUSTER_IN_USE = Conflict, "Cluster in use by ClusterInst", "delete its clusters first"
    CLOUDLET_IN_USE = (
        *(Conflict, "Cloudlet in use by static Application Instance"),
        "delete its instances first",
    )
    CLOUDLET_HAS_CLUSTER = (
        *(Conflict, "Cloudlet in use by static Cluster Instance"),
        "delete its clusters first",
    )
    APP_IN_USE = (
        *(Conflict, "Application in use by static Application Instance"),
        "delete its instances first",
    )
    CLUSTERINST_IN_USE = (
        *(Conflict, "ClusterInst in use by Application Instance"),
        "delete its instances first",
    )

    APP_FLAVOR = Conflict, "Specified flavor not found", "create the flavor first"
    APP_IMAGE_TYPE = Invalid, "invalid ImageType", ""
    APP_DELETE_TYPE = Invalid, "invalid DeleteType", ""
    PORT_FORMAT = (
        *(Invalid, "Invalid Access Ports format, expected proto:port but was {text}"),
        "write them as in tcp:80,udp:53",
    )
    PORT_PROTOCOL = Invalid, "{protocol} is not a supported Protocol", "use tcp, udp or http"
    PORT_NUMBER = (
        *(Invalid, "Failed to convert port {text} to integer: {why}"),
        "write them as in tcp:80,udp:53",
    )
    PORT_RANGE = Invalid, "Port {number} out of range", "choose one from 1 to 65535"
    PORTS_TOO_MANY = Invalid, "{number} access ports, at most {most}", ""
    APP_PUBLIC_KEY = (
        *(Invalid, "auth_public_key is no public key"),
        "give a PEM (PKIX or PKCS1) or a line of authorized_keys",
    )
    APP_NO_DEPLOYMENT = (
        *(Invalid, "unknown image type {image_type}"),
        "name the deployment; a helm app says helm",
    )
    APP_DEPLOYMENT = Invalid, "Invalid deployment {name}, must be one of {known}", ""
    APP_DEPLOYMENT_IMAGE = Invalid, "deployment is not valid for image type", ""
    APP_NO_IMAGE = (
        *(Invalid, "imagepath is required for imagetype IMAGE_TYPE_QCOW"),
        "write it as URL#md5:SUM",
    )
    APP_NO_MD5 = (
        *(Invalid, "md5 checksum of image is required"),
        "write the image path as URL#md5:SUM",
    )
    APP_MD5_FORMAT = (
        *(Invalid, "incorrect checksum format"),
        "write the image path as URL#md5:SUM",
    )
    APP_MD5_ONLY = Invalid, "only md5 checksum is supported", "write the image path as URL#md5:SUM"
    APP_CONFIG = (
        *(Invalid, "config is neither JSON nor a YAML mapping"),
        "write it as in resources: TEXT",
    )
    APP_TEXT_TOO_LONG = Invalid, "{field} is longer than {most} bytes", ""
    APP_GENERATOR = Invalid, "unknown deployment generator {name}", "use kubernetes-basic or a URL"
    APP_VM_COMMAND = (
        *(Invalid, "a vm app with a deployment manifest takes no command"),
        "put the command into the manifest",
    )
    APP_VM_MANIFEST = Invalid, "the deployment manifest of a vm app begins with #cloud-config", ""
    APP_ANDROID = (
        *(AlreadyExists, "android package name {name} is used by another app"),
        "choose another package name",
    )
    APP_CHANGING = (
        *(Exhausted, "the app is being changed by too many at once"),
        "look at it and try again",
    )
    APP_HAS_INSTANCES = (
        *(Conflict, "{field} cannot be changed while the app has instances"),
        "delete its instances first, or describe another version",
    )
    FETCH_FORBIDDEN = (
        *(Invalid, "{url} may not be fetched"),
        "give the text itself, or have the URL allowed in edge.fetch_allow",
    )
    FETCH_FAILED = Invalid, "{url} could not be fetched: {why}", "look whether it can be read"

    CLUSTERINST_NO_DEVELOPER = Invalid, "Developer cannot be empty", ""
    CLUSTERINST_NO_CLOUDLET = Invalid, "Cloudlet name cannot be empty", ""
    CLUSTERINST_NO_OPERATOR = Invalid, "Operator name cannot be empty", ""
    CLUSTERINST_NO_NAME = Invalid, "Cluster name cannot be empty", ""
    CLUSTERINST_VM = (
        *(Invalid, VM_NEEDS_NONE),
        "",
    )
    CLUSTERINST_DEPLOYMENT = (
        *(Invalid, "Invalid deployment type {name} for ClusterInst"),
        "use kubernetes or docker",
    )
    CLUSTERINST_MASTERS = Invalid, "NumMasters cannot be greater than 1", ""
    CLUSTERINST_NO_NODES = Invalid, "Zero NumNodes not supported yet", "ask for one at least"
    CLUSTERINST_DOCKER_COUNTS = (
        *(Invalid, "NumMasters and NumNodes not applicable for deployment type docker"),
        "leave both out",
    )
    CLUSTERINST_DOCKER_SHARED = (
        *(Invalid, "IpAccess must be dedicated for deployment type docker"),
        "",
    )
    CLUSTERINST_NO_FLAVOR = (
        *(Invalid, "No Flavor specified and no default Flavor for Cluster"),
        "name a flavor",
    )
    CLUSTERINST_FLAVOR = Conflict, "flavor {name} not found", "create the flavor first"
    CLUSTERINST_NO_FIT = (
        *(Conflict, "no suitable platform flavor for {name}"),
        "choose a smaller flavor, or another cloudlet",
    )
    CLUSTERINST_NO_INFO = (
        *(Conflict, "no resource information for the cloudlet"),
        "wait until its resource manager has connected",
    )
    CLUSTERINST_NO_IP = (
        *(Exhausted, "No more dynamic IPs left"),
        "share the address, or delete dedicated clusters",
    )
    CLUSTERINST_BUSY = Conflict, "ClusterInst busy, cannot delete", "wait until it is not"
    CLUSTERINST_NOTHING = Invalid, "nothing specified to update", "name num_nodes in fields"
    CLUSTERINST_FIXED = (
        *(Invalid, "some specified fields cannot be modified"),
        "name nothing but num_nodes",
    )
    CLUSTERINST_SINGLE = Invalid, "cannot modify single node clusters", ""
    CLUSTERINST_NOT_READY = Conflict, "cluster is not ready", "wait until it is"

    APPINST_APP = Conflict, "Specified app not found", "create the app first"
    APPINST_CLUSTER = Conflict, "Specified ClusterInst not found", "create the cluster first"
    APPINST_DEVELOPER = (
        *(Invalid, "Developer name mismatch between app: {app} and cluster inst: {cluster}"),
        "",
    )
    APPINST_URI = Invalid, "uri is not allowed, it is given by the controller", "leave it out"
    APPINST_NO_URI = Invalid, "uri is required on the default cloudlet", ""
    APPINST_FLAVOR = Conflict, "Flavor {name} not found", "create the flavor first"
    APPINST_CLUSTER_NOT_READY = Conflict, "ClusterInst {key} not ready", "wait until it is"
    APPINST_DEPLOYMENT = (
        *(Invalid, "Cannot deploy {app} App into {cluster} ClusterInst"),
        "choose a cluster of the app's deployment",
    )
    APPINST_NO_PORTS = (
        *(Exhausted, "no free external ports"),
        "delete instances of the cloudlet, or use a dedicated cluster",
    )
    APPINST_LOCATION = Invalid, "location is inherited from the cloudlet", "change the cloudlet"
    APPINST_UPDATE = (
        *(Unsupported, "Update app instance not supported yet"),
        "delete it and create it anew",
    )
    APPINST_BUSY = Conflict, "AppInst busy, cannot delete", "wait until it is not"

    EXEC_NOBODY = (
        *(Unavailable, "no one answered the offer"),
        "look whether the cloudlet's resource manager is connected",
    )
    EXEC_TIMEOUT = Overdue, "exec request timed out", "ask for something that is done sooner"
    EXEC_FAILED = Failed, "{text}", ""
    NOTIFY_VERSION = (
        *(Invalid, "Notify server expected action version"),
        "begin with a notice whose action is VERSION",
    )
    INSTANCE_FAILED = Failed, "{text}", "look at the resource manager of its cloudlet"
    INSTANCE_OVERDUE = Overdue, "{text}", "look at the resource manager of its cloudlet"
    INSTANCE_SUPERSEDED = (
        *(Conflict, "another call has taken over, without regard to this one"),
        "show how it stands",
    )
    CLOUDLET_FULL = (
        *(Exhausted, "not enough {what} left on the cloudlet"),
        "choose a smaller flavor, fewer nodes, or another cloudlet",
    )

    STRICT_OPERATOR = Conflict, "Specified operator not found", "create the operator first"
    STRICT_DEVELOPER = Conflict, "Specified developer not found", "create the developer first"

    def __init__(self, kind: type[DomainError], text: str, do: str) -> None:
        self.kind = kind
        self.text = text
        self.do = do

    def __call__(self, **named: object) -> DomainError:
        """The error to raise, with its text filled in."""
        return self.kind(self.text.format(**named), reason=self.name, do=self.do)


def refuse_if(wrong: object, refusal: Refusal, **named: object) -> None:
    """Say no if something is wrong. Calls stand in the order in which clients know the checks."""
    if wrong:
        raise refusal(**named)
