"""Many slots: crews of this machine, teams of a cluster's machines, and the core that one may measure on."""
