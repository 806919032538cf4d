"""Other machines: programs are compiled for them, verified under an emulator, chosen by models; nothing is measured."""
