"""What a cell may use, rule by rule; each module adds its rules to those of the one before.

reading (what all rules ask) < attributes < calls < bindings < annotations < `language`, which reads a whole cell.
"""
