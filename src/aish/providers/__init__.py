"""Model backends behind one streaming port."""
