// Fields of the kernel's own struct of the thread that calls getppid(2), of which only these are known here. `make` says how it is compiled.
#include "bpf.h"

struct task_struct {
    int pid;
    int tgid;
    char comm[16];
    struct task_struct *group_leader;
} __attribute__((preserve_access_index));

const volatile u32 wanted = 0;

struct {
    int pid, tgid, leader;
    char comm[16];
} seen;

SEC("tracepoint/syscalls/sys_enter_getppid")
int on_getppid(void *context) {
    struct task_struct *task = (void *)get_current_task(), *leader;
    if (get_current_pid_tgid() >> 32 != wanted) return 1;
    probe_read_kernel(&seen.pid, sizeof(seen.pid), &task->pid);
    probe_read_kernel(&seen.tgid, sizeof(seen.tgid), &task->tgid);
    probe_read_kernel(seen.comm, sizeof(seen.comm), &task->comm);
    probe_read_kernel(&leader, sizeof(leader), &task->group_leader);
    probe_read_kernel(&seen.leader, sizeof(seen.leader), &leader->pid);
    return 1;
}

char LICENSE[] SEC("license") = "GPL";
