"""A listener that keeps what it hears."""

from autotune.core.listener import NoteKeeper


class Recorder(NoteKeeper):
    """Keeps stages, notes and trials; interrupts the run after so many trials."""

    def __init__(self, interrupt_after=None):
        super().__init__()
        self.stages, self.trials, self.interrupt_after = [], [], interrupt_after

    def stage(self, sentence):
        self.stages.append(sentence)

    def trial(self, trial, counted, best):
        self.trials.append(trial)
        if len(self.trials) == self.interrupt_after:
            raise KeyboardInterrupt

    @property
    def configs(self):
        return [trial.config for trial in self.trials]
