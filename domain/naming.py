"""What may be called what: the rules of DNS and of Kubernetes, as predicates."""

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
