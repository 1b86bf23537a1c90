"""The quota service: shares each instance's traffic limit out over the nodes, once a second."""
