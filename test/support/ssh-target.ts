/**
 * A machine to provision: a real OpenSSH server on a free port of loopback, in a root of its own with its own processes.
 *
 * The root shares this machine's /usr, read-only, and its network. Everything in it ends with the target. Its systemd is
 * a program that records its calls and starts what a unit says, because no real one can run there.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort } from './free-ports.ts'
import { beforeFoldersGo, tempFolder } from './temp-folder.ts'
import { until } from './until.ts'

export interface SshTargetOptions {
  readonly systemd?: boolean
  /** Replaces a program by a script; empty: the program is not there. */
  readonly programs?: Readonly<Record<string, string>>
  /** The size of the disk of /var/lib. */
  readonly diskBytes?: number
  /** Folders of this machine that the target has too. */
  readonly shared?: readonly string[]
}

export const ORDINARY_UID = 1_207

export class SshTarget {
  readonly folder = tempFolder()
  readonly port: number
  readonly #options: SshTargetOptions
  #process: ChildProcess | undefined

  private constructor(port: number, options: SshTargetOptions) {
    this.port = port
    this.#options = options
  }

  static async start(options: SshTargetOptions = {}): Promise<SshTarget> {
    const target = new SshTarget(await freePort(), options)
    target.#makeRoot()
    await target.#run()
    beforeFoldersGo(() => target.stop())
    return target
  }

  /** The private key that both users accept. */
  get identityFile(): string {
    return join(this.folder, 'identity')
  }

  get hostKeySha256(): string {
    return this.#fingerprint('etc/ssh/host_key.pub')
  }

  get publicHostKey(): string {
    return readFileSync(join(this.#root, 'etc/ssh/host_key.pub'), 'utf8').split(' ').slice(0, 2).join(' ')
  }

  /** A path of this machine for one of the target. */
  path(inside: string): string {
    return join(this.#root, inside)
  }

  has(inside: string): boolean {
    return existsSync(this.path(inside))
  }

  read(inside: string): string {
    return readFileSync(this.path(inside), 'utf8')
  }

  /** What `find` says of a folder in the target. */
  files(inside: string): string[] {
    return execFileSync('find', [this.path(inside), '-mindepth', '1'], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.slice(this.#root.length))
      .sort()
  }

  /** The command lines and environments of the processes in the target. */
  processes(): string[] {
    const pids = execFileSync('ps', ['-eo', 'pid=,args='], { encoding: 'utf8' }).split('\n')
    return pids.filter((line) => line.includes('switchyard-worker'))
  }

  /** Runs a script in the target by the usual client of SSH. */
  run(user: string, script: string): string {
    const options = ['-oStrictHostKeyChecking=no', '-oUserKnownHostsFile=/dev/null', '-oLogLevel=ERROR']
    const args = ['-i', this.identityFile, '-p', String(this.port), ...options, `${user}@127.0.0.1`, script]
    return execFileSync('ssh', args, { encoding: 'utf8' })
  }

  /** What the server wrote. */
  log(): string {
    return readFileSync(this.path('tmp/sshd.log'), 'utf8')
  }

  async stop(): Promise<void> {
    const process = this.#process
    if (process === undefined || process.exitCode !== null || process.signalCode !== null) return
    const ended = new Promise((resolve) => process.once('exit', resolve))
    process.kill('SIGKILL')
    await ended
  }

  get #root(): string {
    return join(this.folder, 'root')
  }

  #fingerprint(publicKey: string): string {
    const line = execFileSync('ssh-keygen', ['-lf', this.path(publicKey)], { encoding: 'utf8' })
    return line.split(' ')[1] ?? ''
  }

  #makeRoot(): void {
    chmodSync(this.folder, 0o755)
    const folders = 'etc/ssh/keys home/ann/.ssh root var/lib var/empty tmp run/sshd usr proc dev'.split(' ')
    for (const folder of folders) mkdirSync(this.path(folder), { recursive: true, mode: 0o755 })
    chmodSync(this.path('tmp'), 0o1777)
    chownSync(this.path('home/ann'), ORDINARY_UID, ORDINARY_UID)
    const keygen = (...args: readonly string[]) =>
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', ...args])
    keygen('-f', this.identityFile)
    keygen('-f', this.path('etc/ssh/host_key'))
    for (const user of ['root', 'ann'])
      writeFileSync(this.path(`etc/ssh/keys/${user}`), readFileSync(`${this.identityFile}.pub`))
    const etc: Readonly<Record<string, string>> = {
      passwd: `root:x:0:0::/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\nann:x:${ORDINARY_UID}:${ORDINARY_UID}::/home/ann:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n`,
      group: `root:x:0:\nann:x:${ORDINARY_UID}:\nnogroup:x:65534:\n`,
      shadow: 'root:*:1::::::\nsshd:*:1::::::\nann:*:1::::::\n',
      'nsswitch.conf': 'passwd: files\ngroup: files\nshadow: files\nhosts: files\n',
      hosts: '127.0.0.1 localhost\n',
      'ssh/sshd_config': this.#config(),
    }
    for (const [name, text] of Object.entries(etc)) writeFileSync(this.path(`etc/${name}`), text)
    if (this.#options.systemd === true) this.#makeSystemd()
  }

  #config(): string {
    return `Port ${this.port}
ListenAddress 127.0.0.1
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/keys/%u
PasswordAuthentication no
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
MaxStartups 100
`
  }

  #makeSystemd(): void {
    mkdirSync(this.path('run/systemd/system'), { recursive: true })
    mkdirSync(this.path('etc/systemd/system'), { recursive: true })
    writeFileSync(join(this.folder, 'calls'), '')
  }

  async #run(): Promise<void> {
    const { programs = {}, diskBytes, shared = [], systemd } = this.#options
    const root = (inside: string) => this.path(inside)
    const replaced = { ...(systemd === true ? SYSTEMD_PROGRAMS : {}), ...programs }
    const binds = Object.entries(replaced).flatMap(([program, text]) => {
      if (text === '') return ['--ro-bind', '/dev/null', program]
      const file = join(this.folder, program.replaceAll('/', '_'))
      writeFileSync(file, `#!/bin/sh\n${text}`, { mode: 0o755 })
      return ['--ro-bind', file, program]
    })
    const args = [
      ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--hostname', 'forge', '--die-with-parent'],
      ...['--cap-add', 'ALL'],
      ...['etc', 'home', 'root', 'var', 'tmp', 'run'].flatMap((name) => ['--bind', root(name), `/${name}`]),
      ...['--ro-bind', '/usr', '/usr'],
      ...['bin', 'sbin', 'lib', 'lib64'].flatMap((name) => ['--symlink', `usr/${name}`, `/${name}`]),
      ...['/etc/ld.so.cache', '/etc/alternatives', '/etc/ssl'].flatMap((path) => [
        '--ro-bind-try',
        path,
        path,
      ]),
      ...['--dir', '/proc', '--dev', '/dev'],
      ...shared.flatMap((path) => [...foldersAbove(path), '--bind', path, path]),
      ...(diskBytes === undefined ? [] : ['--size', String(diskBytes), '--tmpfs', '/var/lib']),
      ...binds,
      // bubblewrap's own /proc is masked, and no sandbox could be made below it.
      ...['--', '/bin/sh', '-c', `mount -t proc proc /proc && exec ${SERVER}`],
    ]
    this.#process = spawn('bwrap', args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { PATH: process.env.PATH },
    })
    let errors = ''
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      errors += text
    })
    await until('the SSH server answers', async () => {
      if (this.#process?.exitCode !== null) throw new Error(`the target ended: ${errors}`)
      return answers(this.port)
    })
  }
}

/** Everybody may pass to a shared folder. */
const foldersAbove = (path: string): string[] =>
  path
    .split('/')
    .slice(2, -1)
    .flatMap((_, at, parts) => [
      '--perms',
      '0755',
      '--dir',
      `/${path.split('/')[1]}/${parts.slice(0, at + 1).join('/')}`,
    ])

const SERVER = '/usr/sbin/sshd -D -f /etc/ssh/sshd_config -E /tmp/sshd.log'

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('data', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

/** Records the calls in /tmp/calls, and starts and stops what the unit names. */
const SYSTEMCTL = `
printf '%s\\n' "systemctl $*" >>/tmp/calls
user=
[ "$1" = --user ] && user=yes && shift
if [ -n "$user" ]; then folder=$HOME/.config/systemd/user; else folder=/etc/systemd/system; fi
unit=$folder/switchyard-worker.service
state=/tmp/unit.$(id -u)
alive() { pid=$(cat "$state" 2>/dev/null) && kill -0 "$pid" 2>/dev/null; }
case $1 in
  is-active) alive ;;
  start)
    alive || { setsid $(sed -n 's/^ExecStart=//p' "$unit") >>/tmp/journal 2>&1 </dev/null & echo $! >"$state"; } ;;
  stop)
    alive && kill -TERM "$pid"
    while alive; do sleep 0.1; done ;;
  kill) alive && kill -KILL "$pid" ;;
  disable) alive && kill -KILL "$pid"; true ;;
  show)
    case $* in
      *ActiveState*) if alive; then echo active; else echo failed; fi ;;
      *ExecMainStatus*) echo 1 ;;
      *) echo Version=252 ;;
    esac ;;
esac
`
const SYSTEMD_PROGRAMS = {
  '/usr/bin/systemctl': SYSTEMCTL,
  '/usr/bin/loginctl': `
printf '%s\\n' "loginctl $*" >>/tmp/calls
case $1 in
  show-user) if [ -f /tmp/linger ]; then echo yes; else echo no; fi ;;
  enable-linger) touch /tmp/linger ;;
  disable-linger) rm -f /tmp/linger ;;
esac
`,
  '/usr/bin/journalctl': 'tail -n 20 /tmp/journal\n',
}
