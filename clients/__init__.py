"""The systems we call, one module each: their wire inside, the domain's words outside."""
