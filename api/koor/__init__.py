"""The koor contract: what is known of Ceph."""
