"""The revisions. One that has been released is never changed: another is put on top."""
