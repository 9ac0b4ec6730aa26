/** The fixture of the git tests: real git, real sandboxes, and a folder as code host. */
import { appendFileSync, chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import type { CodeHost } from '../../../../core/ports/code-host.ts'
import { type Result, yes } from '../../../../core/result.ts'
import type { AgentJob } from '../../../../protocol/frames.ts'
import { createLocalCodeHost } from '../../../../providers/codehost/local/code-host.ts'
import { createGitSources, type GitSourcesOptions } from '../../../../worker/git/create-git-sources.ts'
import { GITCONFIG_TEXT } from '../../../../worker/git/git-inside-sandbox.ts'
import type {
  GitSources,
  RunFolders,
  SandboxCommandResult,
  SandboxRunner,
} from '../../../../worker/git/git-ports.ts'
import { RemotePolicy } from '../../../../worker/git/remote-policy.ts'
import { sandboxUserOf } from '../../../../worker/sandbox/folders.ts'
import { thisMachine } from '../../../../worker/sandbox/local-machine.ts'
import { findSandbox } from '../../../../worker/sandbox/registry.ts'
import { aRun, aTicket } from '../../../rules/run/runs.ts'
import { createRepository, git } from '../../../support/git.ts'
import { writeCommit } from '../../../support/github/commit-writer.ts'
import { branchTip } from '../../../support/github/plumbing.ts'
import { FIRST_SANDBOX_NUMBER } from '../../../support/sandbox.ts'

const machine = thisMachine()
const sandbox = await findSandbox()
if (!sandbox.ok) throw new Error(`these tests need a sandbox: ${sandbox.detail}`)
const launcher = sandbox.createLauncher(realClock)

/** A folder that sandbox users can enter; deleted after the test file. */
export function passableFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-sources-'))
  chmodSync(folder, 0o711)
  folders.push(folder)
  return folder
}

const folders: string[] = []
afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

export { git }

/**
 * Commits one file to a branch of the code host as a person, and returns the commit; without a file its content stays.
 * A new branch begins at `main`. The person's checkout stays as it was.
 */
export function commitAsPerson(
  { remote }: Pick<GitFixture, 'remote'>,
  branch: string,
  file: string | undefined,
  text: string,
  subject: string,
): string {
  const by = `Ada <ada@example.org> ${Math.floor(realClock.now() / 1000)} +0000`
  const parent = branchTip(remote, branch) ?? branchTip(remote, 'main')
  const files = file === undefined ? {} : { [file]: text }
  const commit = {
    branch,
    parent,
    message: `${subject}\n`,
    author: by,
    committer: by,
    files,
  }
  const hash = writeCommit(remote, commit)
  if (hash === undefined) throw new Error(`the files of ${branch} are packed`)
  return hash
}

export interface GitFixture {
  readonly folder: string
  readonly codehost: CodeHost
  /** Allows the folder of the code host. */
  readonly policy: RemotePolicy
  /** The bare repository of the code host. */
  readonly remote: string
  /** A person's checkout of it. */
  readonly person: string
  readonly sources: GitSources
  /** A new run's folders and its sandbox. */
  readonly run: () => RunFixture
}

export interface RunFixture {
  readonly folders: RunFolders
  readonly sandbox: SandboxRunner
  /** Runs a script inside as the agent; throws if it fails. */
  readonly sh: (script: string) => Promise<string>
}

let runs = 0

/** `from` is the folder of another fixture, whose repositories are copied. */
export function createGitFixture(
  more: Partial<GitSourcesOptions> & { readonly codehost?: CodeHost } = {},
  from = repositories(),
): GitFixture {
  const folder = passableFolder()
  const hostPath = join(folder, 'codehost')
  const remote = join(hostPath, 'ada/lamps.git')
  const person = join(folder, 'person')
  cpSync(from, folder, { recursive: true })
  const { codehost = createLocalCodeHost({ path: hostPath, clock: realClock }), ...parts } = more
  const policy = new RemotePolicy({
    localRepositories: { allowedFolders: [hostPath], ownFolders: [join(folder, 'worker')] },
  })
  const sources = createGitSources({
    folder: join(folder, 'worker'),
    clock: realClock,
    random: realRandom,
    codehostFor: (): Result<CodeHost> => yes(codehost),
    policy,
    ...parts,
  })
  return {
    folder,
    codehost,
    policy,
    remote,
    person,
    sources,
    run: () => createRunFixture(join(folder, `run-${++runs}`)),
  }
}

let template: string | undefined

/** Creates both repositories once for all fixtures of a test file, because they cost eight git processes. */
function repositories(): string {
  if (template !== undefined) return template
  const folder = passableFolder()
  const [remote, person] = [join(folder, 'codehost/ada/lamps.git'), join(folder, 'person')]
  mkdirSync(remote, { recursive: true })
  createRepository(person, {
    First: {},
    Lamps: { lamp: 'one\n', 'dir/shade': 'two\n', '.gitignore': '*.log\n' },
  })
  git(person, 'init', '-q', '--bare', '-b', 'main', remote)
  appendFileSync(join(remote, 'config'), '[receive]\n\tautogc = false\n')
  // A copy of the folder has the right remote.
  git(person, 'remote', 'add', 'origin', '../codehost/ada/lamps.git')
  git(person, 'push', '-q', 'origin', 'main')
  template = folder
  return folder
}

function createRunFixture(root: string): RunFixture {
  const sandboxUser = sandboxUserOf(FIRST_SANDBOX_NUMBER + 200 + runs, machine)
  const made = (name: string, isSlots: boolean): string => {
    const path = join(root, name)
    mkdirSync(path, { recursive: true, mode: 0o700 })
    chmodSync(root, 0o711)
    if (isSlots && machine.euid === 0) chownSync(path, sandboxUser.uid, sandboxUser.gid)
    return path
  }
  const folders = {
    work: made('work', true),
    home: made('home', true),
    exchange: made('exchange', true),
    staging: made('desk', false),
  }
  const sandbox: SandboxRunner = {
    async run(command, { mounts = [], stdin, timeoutMs = 60_000 } = {}): Promise<SandboxCommandResult> {
      const sandbox = launcher.launch({
        user: sandboxUser,
        name: `sources-${runs}`,
        workFolder: folders.work,
        homeFolder: folders.home,
        mounts,
        files: [{ path: '/etc/gitconfig', mode: '0444', text: GITCONFIG_TEXT }],
        maxProcesses: 256,
        command,
        ...(stdin === undefined ? {} : { stdin }),
      })
      let output = ''
      for (const stream of [sandbox.stdout, sandbox.stderr]) {
        stream.setEncoding('utf8').on('data', (part: string) => {
          output = (output + part).slice(-64 * 1024)
        })
      }
      const cancel = realClock.after(timeoutMs, () => sandbox.kill())
      const { code, startFailure } = await sandbox.ended
      cancel()
      return {
        output,
        ...(code === undefined ? {} : { code }),
        ...(startFailure === undefined ? {} : { startFailure }),
      }
    },
  }
  const sh = async (script: string): Promise<string> => {
    const { code, output, startFailure } = await sandbox.run(['/bin/sh', '-euc', script])
    if (code !== 0) throw new Error(`inside: ${startFailure ?? ''} ${code}: ${output}`)
    return output.trim()
  }
  return { folders, sandbox, sh }
}

export function aJob(more: Partial<AgentJob> = {}): AgentJob {
  return {
    kind: 'run',
    run: aRun({
      ticket: { ...aTicket, identifier: 'ENG-12', title: 'Mend the lamp', url: 'https://t.example/ENG-12' },
    }),
    repo: { key: 'lamps', remote: 'ada/lamps', defaultBranch: 'main' },
    branch: 'switchyard/eng-12',
    base: 'main',
    agent: { provider: 'agentA', instructions: '', memories: [] },
    credentials: {},
    limits: {},
    retentionHours: 1,
    ...more,
  }
}

export const never = new AbortController().signal

export function got<T>(answer: Result<T>): T {
  if (!answer.ok) throw new Error(`${answer.refusal.kind}: ${answer.refusal.message}`)
  return answer.value
}

export function refusalOf<T>(answer: Result<T>): string {
  if (answer.ok) throw new Error('this should have been refused')
  return `${answer.refusal.kind}: ${answer.refusal.message}`
}
