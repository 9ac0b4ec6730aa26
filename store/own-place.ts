/** Finds out where this process runs: its kernel, its machine, its process namespace, and when a process started. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { FIRST_PID_NAMESPACE, type OwnPlace } from '../core/owner.ts'

const MACHINE_ID = /^[0-9a-f]{32}$/
const CONTAINER_MARKS = ['/.dockerenv', '/run/.containerenv']
const OVERLAY_ROOT = /^\S+ \S+ \S+ \S+ \/ .* - overlay /m

export function findOwnPlace(): OwnPlace {
  const pidNamespace = readPidNamespace()
  const machine = isInImage(pidNamespace) ? undefined : readMachineId()
  return {
    // On other systems the start time of a process is precise enough to tell boots apart.
    boot: readText('/proc/sys/kernel/random/boot_id')?.trim() ?? 'unknown',
    ...(machine === undefined ? {} : { machine }),
    ...(pidNamespace === undefined ? {} : { pidNamespace }),
  }
}

/** Returns when a live process started; undefined when there is no such process, or only a zombie. */
export function processStart(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid < 1) return undefined
  return process.platform === 'linux' ? processStartOnLinux(pid) : processStartElsewhere(pid)
}

/** Whether the files of this system are those of an image, so that other machines may have the same machine-id. */
const isInImage = (pidNamespace: string | undefined): boolean =>
  CONTAINER_MARKS.some((path) => existsSync(path)) ||
  (pidNamespace !== FIRST_PID_NAMESPACE && OVERLAY_ROOT.test(readText('/proc/self/mountinfo') ?? ''))

function readMachineId(): string | undefined {
  const id = readText('/etc/machine-id')?.trim() ?? ''
  return MACHINE_ID.test(id) ? id : undefined
}

function readPidNamespace(): string | undefined {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return undefined
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

function processStartOnLinux(pid: number): string | undefined {
  const stat = readText(`/proc/${pid}/stat`)
  if (stat === undefined) return undefined
  // The second field is the command, which may contain any character; its closing bracket is the last one in the line.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state] = fields
  return state === 'Z' || state === 'X' ? undefined : fields[19]
}

function processStartElsewhere(pid: number): string | undefined {
  try {
    const began = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], {
      encoding: 'utf8',
      // A change of the time zone must not change the result.
      env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/bin:/usr/bin' },
    })
    return began.trim() || undefined
  } catch {
    return undefined
  }
}
