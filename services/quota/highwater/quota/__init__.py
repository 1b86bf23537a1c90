"""The quota service: divides each instance's traffic limit among the nodes, once a second."""
