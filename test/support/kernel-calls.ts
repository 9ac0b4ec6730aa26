/**
 * The kernel's own tables of system calls, and what a sandbox does with each, by name.
 *
 * The product lists what is allowed; the lists here have all that is not, and were typed apart from it.
 */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export type Verdict = 'allowed' | 'inspected' | 'refused' | 'absent'

const LISTS: Readonly<Record<Exclude<Verdict, 'allowed'>, string>> = {
  refused: `
    mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
    statmount listmount unshare setns ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
    add_key request_key keyctl bpf perf_event_open userfaultfd lookup_dcookie modify_ldt iopl ioperm
    io_uring_setup io_uring_enter io_uring_register init_module finit_module delete_module create_module query_module
    kexec_load kexec_file_load reboot settimeofday clock_settime clock_adjtime adjtimex name_to_handle_at
    open_by_handle_at fanotify_init fanotify_mark quotactl quotactl_fd swapon swapoff acct syslog sethostname
    setdomainname vhangup nfsservctl uselib _sysctl`,
  absent: `
    clone3 openat2 get_mempolicy set_mempolicy set_mempolicy_home_node mbind move_pages migrate_pages
    lsm_get_self_attr lsm_set_self_attr lsm_list_modules file_getattr file_setattr ustat sysfs
    get_kernel_syms getpmsg putpmsg afs_syscall tuxcall security vserver
    set_thread_area get_thread_area epoll_ctl_old epoll_wait_old`,
  inspected: `
    clone ioctl personality open openat creat chmod fchmod fchmodat fchmodat2 mkdir mkdirat mknod mknodat
    socket socketpair`,
}
const VERDICTS = new Map(
  (['refused', 'absent', 'inspected'] as const).flatMap((verdict) =>
    LISTS[verdict]
      .trim()
      .split(/\s+/)
      .map((name) => [name, verdict] as const),
  ),
)

/** A number without a name in the kernel's table is none that a sandbox has. */
export function verdictOf(name: string | undefined): Verdict {
  return name === undefined ? 'absent' : (VERDICTS.get(name) ?? 'allowed')
}

/** The table of an architecture (in Node's naming) up to Linux 6.18. */
export function readKernelCalls(arch: string): ReadonlyMap<number, string> {
  const file = join(dirname(fileURLToPath(import.meta.url)), 'kernel-calls', `${arch}.txt`)
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  return new Map(lines.map((line) => line.split(' ')).map(([number, name = '']) => [Number(number), name]))
}
