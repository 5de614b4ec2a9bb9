//! `ioctl(2)` of events: what it changes is seen by all that the event measures.

use super::Machine;
use crate::world::View;
use perfuse_abi::Errno;
use perfuse_engine::{BpfProgram, EventKey, Ioctl, TaskId};

impl Machine {
    /// `ioctl(2)`; the id for [`Ioctl::Id`], otherwise 0. (`SET_BPF` goes another way, with the program.)
    pub fn ioctl(&mut self, caller: TaskId, event: EventKey, ioctl: Ioctl<'_>) -> Result<u64, Errno> {
        self.ioctl_with(caller, event, ioctl, Err(Errno::EINVAL))
    }

    pub(super) fn ioctl_with(
        &mut self,
        caller: TaskId,
        event: EventKey,
        ioctl: Ioctl<'_>,
        program: Result<BpfProgram, Errno>,
    ) -> Result<u64, Errno> {
        let changes = !matches!(
            ioctl,
            Ioctl::Id | Ioctl::PauseOutput(_) | Ioctl::SetOutput(_) | Ioctl::QueryBpf(_) | Ioctl::SetBpf(_)
        );
        let has_program = matches!(ioctl, Ioctl::SetBpf(_));
        if matches!(ioctl, Ioctl::Period(_)) {
            self.follow_limits();
        }
        if changes {
            self.update_targets(event);
        }
        let now = self.now();
        if changes {
            self.vacate_if_several(&self.engine.targets(event), now);
        }
        // The caller runs: the new period holds at once.
        if matches!(ioctl, Ioctl::Period(_)) && self.engine.targets(event).contains(&caller) {
            self.come(caller, self.cpu_of(caller), now);
        }
        let tid = self.tid_of(caller).map(|(_, tid)| tid);
        let mut view = View { program, ..View::new(&mut self.world, tid) };
        if matches!(ioctl, Ioctl::QueryBpf(_)) && self.bpf.is_used() {
            view.perfmon = true.into();
        }
        let answer = self.engine.ioctl(&mut view, caller, event, now, ioctl);
        if changes {
            let tasks = self.engine.targets(event);
            self.look_again(tasks);
        } else if has_program {
            // It runs whether or not its event is on, and at the hits of all (rule K4).
            self.look_again(vec![caller]);
        }
        answer
    }
}
