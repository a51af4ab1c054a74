"""Operations: our own contract, and the same operations as google.longrunning."""
