/**
 * A real systemd that manages the services of one user, on a machine whose first process may be another one.
 *
 * The manager runs in a mount namespace with a /run of its own and in control groups of its own, and ends with the test.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isRoot } from './skips.ts'
import { tempFolder } from './temp-folder.ts'
import { closeAfterTest } from './test-resources.ts'
import { until } from './until.ts'

const SYSTEMD = '/lib/systemd/systemd'
const RUNTIME_DIR = '/run/user/0'
const GROUP = `switchyard-test-${process.pid}`

/** The tops of the control groups in which systemd keeps its services: one, or two where the machine has both versions. */
const tops = ['/sys/fs/cgroup', '/sys/fs/cgroup/systemd', '/sys/fs/cgroup/unified'].filter((folder) =>
  existsSync(join(folder, 'cgroup.procs')),
)

/** Only the second version can end all members of a group. */
const hasSecondVersion = tops.some((top) => existsSync(join(top, 'cgroup.controllers')))

export const canManageUser = isRoot && existsSync(SYSTEMD) && hasSecondVersion

export interface FinishedProgram {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface UserManager {
  readonly home: string
  /** The folder for `StateDirectory=`, which differs between versions of systemd. */
  readonly stateFolder: string
  /** Runs a program that finds this manager. */
  readonly run: (...words: readonly string[]) => FinishedProgram
  readonly systemctl: (...words: readonly string[]) => FinishedProgram
  /** The values of a unit's properties. */
  readonly show: (unit: string, ...names: readonly string[]) => string[]
}

const SCRIPT = `
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system ${RUNTIME_DIR} && chmod 700 ${RUNTIME_DIR}
for group in "$@"; do mkdir -p "$group" && echo $$ > "$group/cgroup.procs" || exit 1; done
exec ${SYSTEMD} --user --log-target=console
`

export async function openUserManager(): Promise<UserManager> {
  const home = tempFolder()
  const env = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', HOME: home, XDG_RUNTIME_DIR: RUNTIME_DIR }
  const groups = tops.map((top) => join(top, GROUP))
  const words = ['--mount', '--propagation', 'private', 'sh', '-c', SCRIPT, 'sh', ...groups]
  const manager = spawn('unshare', words, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let err = ''
  manager.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const inside = ['--mount', '--target', String(manager.pid)]
  const run = (...args: readonly string[]) => {
    const { status, stdout, stderr } = spawnSync('nsenter', [...inside, ...args], { env, encoding: 'utf8' })
    return { code: status, out: stdout, err: stderr }
  }
  const systemctl = (...args: readonly string[]) => run('systemctl', '--user', ...args)
  closeAfterTest(async () => {
    for (const group of groups) killAll(group)
    await until('the manager has ended', () => manager.exitCode !== null || manager.signalCode !== null)
    await until('its groups are empty', () => groups.every((group) => removeGroups(group)))
  })
  await until(`the manager runs: ${err}`, () => systemctl('is-system-running').out.trim() === 'running')
  const isNew = Number(/^systemd (\d+)/.exec(spawnSync(SYSTEMD, ['--version']).stdout.toString())?.[1]) >= 254
  const stateFolder = join(home, isNew ? '.local/state' : '.config')
  mkdirSync(stateFolder, { recursive: true })
  const show = (unit: string, ...names: readonly string[]) => {
    const lines = systemctl('show', unit, `--property=${names.join(',')}`)
      .out.trim()
      .split('\n')
    const values = new Map(lines.map((line) => [line.replace(/=.*/, ''), line.replace(/^[^=]*=/, '')]))
    return names.map((name) => values.get(name) ?? '')
  }
  return { home, stateFolder, run, systemctl, show }
}

/** The second version of control groups ends all members at once. */
function killAll(group: string): void {
  const file = join(group, 'cgroup.kill')
  if (existsSync(file)) writeFileSync(file, '1')
}

/** Returns false while a group has members. */
function removeGroups(group: string): boolean {
  if (!existsSync(group)) return true
  try {
    for (const entry of readdirSync(group, { withFileTypes: true }))
      if (entry.isDirectory()) removeGroups(join(group, entry.name))
    rmdirSync(group)
    return true
  } catch {
    return false
  }
}
