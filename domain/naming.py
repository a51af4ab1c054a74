"""What may be called what: the rules of DNS, of Kubernetes and of the edge, as predicates."""

import re

CLUSTER_NAME_LENGTH = 63
POOL_NAME_LENGTH = 57
"""A node is called pool, hyphen, five characters, and must fit a DNS label of 63."""

SUFFIX_LENGTH = 5
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so no words; no characters that are easily taken for one another."""

CONTROL_PLANE = "control-plane"
"""The name that control-plane nodes carry; no pool may have it."""

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

NODE_OWNED_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
NODE_OWNED_PREFIXES = frozenset({"kubelet.kubernetes.io", "node.kubernetes.io"})
"""What NodeRestriction lets a kubelet set on itself. Every other kubernetes.io key is reserved."""

POOL_LABEL = "node-pool"
"""We put the pool's name there, so nobody else may."""


def is_dns_label(text: str, longest: int = 63) -> bool:
    """Whether `text` is a DNS-1123 label of at most `longest` characters."""
    return len(text) <= longest and _DNS_LABEL.fullmatch(text) is not None


def is_label_key(key: str) -> bool:
    """Whether `key` is a qualified name: an optional DNS prefix and a name of at most 63."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _DNS_SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _LABEL_NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Whether `value` may stand in a label. Empty may."""
    return value == "" or (len(value) <= 63 and _LABEL_NAME.fullmatch(value) is not None)


def is_reserved_label(key: str) -> bool:
    """Whether `key` is ours or Kubernetes' own to set."""
    if key == POOL_LABEL:
        return True
    prefix, _, _ = key.rpartition("/")
    if not (_within(prefix, "kubernetes.io") or _within(prefix, "k8s.io")):
        return False
    return key not in NODE_OWNED_LABELS and prefix not in NODE_OWNED_PREFIXES


def _within(prefix: str, domain: str) -> bool:
    return prefix == domain or prefix.endswith("." + domain)


_TAG = re.compile(r"[a-zA-Z0-9_-]{1,63}")


def is_tag(text: str) -> bool:
    """Whether `text` may be the name of a tag in MAAS."""
    return _TAG.fullmatch(text) is not None


_TITLE = re.compile(r"[0-9A-Za-z][-_0-9A-Za-z .&,!]*")
_TEMPLATE_NAME = re.compile(r"[0-9A-Za-z][-0-9A-Za-z.]*")

AUTO_CLUSTER = "autocluster"
"""What the names of clusters begin with that are made for an app instance. Nobody else's may."""

DEFAULT_OPERATOR = "developer"
"""The operator of the cloudlet that needs none: a developer's own back end."""


def is_title(text: str) -> bool:
    """Whether `text` may name a developer, an operator, a flavor, a cloudlet or an app, or be an
    app's version."""
    return _TITLE.fullmatch(text) is not None


def is_template_name(text: str) -> bool:
    """Whether `text` may name a cluster at the edge, and so its template."""
    return _TEMPLATE_NAME.fullmatch(text) is not None


_DNS = str.maketrans("_", "-", " &,.!")
_KUBERNETES = str.maketrans("_", "-", " &,!")
_IMAGE = str.maketrans("&!", "-.", " ,")


def as_dns(title: str) -> str:
    """A title as part of a DNS name: `a 1&2_x.y!` becomes `a12-xy`."""
    return title.translate(_DNS).lower()


def as_kubernetes(title: str) -> str:
    """A title as Kubernetes takes it in a label: as in DNS, but with its dots."""
    return title.translate(_KUBERNETES).lower()


def as_image(title: str) -> str:
    """A title as part of an image's path: `a 1&2_x.y!` becomes `a1-2_x.y.`, with its capitals."""
    return title.translate(_IMAGE)
