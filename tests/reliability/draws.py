"""What random histories are made of: whom, how many, when, and what goes wrong meanwhile."""

from hypothesis import strategies as st

from sim.faults import Fault, How

names = st.sampled_from(("apple", "banana"))
pools = st.sampled_from(("w", "x"))
sizes = st.integers(0, 3)
versions = st.sampled_from(("", "", "", "1.31.4", "1.32.4", "1.34.1"))
"""Nothing: whichever comes next."""

pauses = st.sampled_from((0.0, 0.05, 0.1, 0.2, 0.3, 0.5))
"""Seconds. A step takes some hundredths, a change some tenths."""

regrets = st.sampled_from(("", "", "cancel", "delete", "force", "pause", "kill the worker"))
"""What is done to a change that has just been asked for, after a pause."""

forces = st.sampled_from((False, False, True))
"""Whether a delete lets go of what it cannot give back."""

patience = st.sampled_from((True, True, True, False))
"""Whether somebody waits until nothing runs on a cluster before they ask for more."""

LATER = (
    *("maas allocate", "maas deploy", "maas deployed", "maas release", "maas released"),
    *("names ensure", "names remove", "api uncordon", "api delete_node"),
    *("hosts foresee", "hosts back_up", "hosts upgrade", "hosts renew_kubelet"),
)
"""Calls that are refused, hang, or are done and then denied: all worth another try."""

NEVER = ("hosts initialise", "hosts join", "hosts upgrade", "api cordon")
"""Calls that may fail for good as well."""

faults = st.one_of(
    st.builds(
        Fault,
        where=st.sampled_from(LATER),
        how=st.sampled_from((How.REFUSE, How.HANG, How.HALF)),
        times=st.integers(1, 3),
    ),
    st.builds(Fault, where=st.sampled_from(NEVER), how=st.sampled_from((How.FAIL, How.HALF))),
)
