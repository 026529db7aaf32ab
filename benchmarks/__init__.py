"""How fast the engines are, as ratios to a floor that is measured in the same run.

It may import everything below ``tests``. No figure is asserted: what a machine does today says little of tomorrow.
"""
