"""A site to build on when there is no metal at hand: real servers on real sockets."""
