/**
 * A real executor with a finished run whose sandbox a person can resume.
 *
 * The executor uses real sandboxes, the built programs that run inside them, and the scripted agent in place of agentA. Only git
 * is replaced.
 */
import { randomUUID } from 'node:crypto'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { realClock } from '../../bin/process/clock.ts'
import type { BootedSandbox, TerminalSession, TerminalSize } from '../../core/daemon/terminal.ts'
import { no, yes } from '../../core/result.ts'
import type { AgentJob, RunCredentials } from '../../protocol/frames.ts'
import { createAgentDrivers } from '../../worker/agents/registry.ts'
import { type ClosableExecutor, openExecutor } from '../../worker/executor.ts'
import { nodeInside } from '../../worker/run/disk/sandbox-location.ts'
import type { ExecutorDependencies } from '../../worker/run/execution/executor-dependencies.ts'
import { makeLauncher } from '../../worker/sandbox/bwrap/launch.ts'
import { openSandboxEgress } from '../../worker/sandbox/egress/sandbox-egress.ts'
import { removeFolderTree, sandboxUserOf } from '../../worker/sandbox/folders.ts'
import { thisMachine } from '../../worker/sandbox/local-machine.ts'
import { confirmedClock } from './confirmed-clock.ts'
import { createRecordingLog } from './recording-log.ts'

export const RUN = 'run-1'
export const KEY = 'sk-ant-api03-a-key-that-must-not-stay-anywhere-0123456789'
export const SIZE: TerminalSize = { cols: 100, rows: 30 }
/** Generous, because only a failing test waits this long. */
const SEEN_MS_MAX = 25_000

/** The first sandbox number of this process: parallel test files and hosts must not share numbers. */
export const SLOTS_FROM = 1_000_500 + (process.pid % 200_000) * 1_000

/** On a terminal this agent is a plain shell, which can do more than the scripted agent. */
export const SHELL = `sh -c 'if [ -t 0 ]; then PS1="$ " exec sh -i; fi; exec scripted-agent "$@"' agent`

export async function openTestExecutor(
  folder: string,
  changes: Partial<ExecutorDependencies> = {},
  slotsFrom = SLOTS_FROM,
): Promise<ClosableExecutor> {
  const machine = thisMachine()
  const isRoot = machine.euid === 0
  if (isRoot) chmodSync(folder, 0o711)
  const clock = realClock
  return openExecutor({
    folder,
    clock,
    retentionClock: confirmedClock(clock),
    log: createRecordingLog(),
    uuid: randomUUID,
    sandboxProvider: 'bwrap',
    launcher: makeLauncher({ bwrap: '/usr/bin/bwrap', clock, machine }),
    userFor: (number) => sandboxUserOf(number, machine),
    firstNumber: slotsFrom,
    isRoot,
    removeFolder: removeFolderTree,
    gitSources: {
      checkOut: async () => yes({ base: 'a' }),
      bundle: async () => yes(undefined),
      collect: async () =>
        yes({ head: 'b', commits: 1, diff: { files: 1, additions: 1, deletions: 0, text: '' } }),
      publish: async () => no('failed', 'this test publishes nothing'),
      // Never called: these tests have no follow-ups.
      followUps: {} as never,
    },
    // Never called, because nothing is published.
    codehostFor: () => yes({} as never),
    drivers: createAgentDrivers({ path: '/usr/bin:/bin', home: '/root', hasOwnUsers: isRoot }),
    modelUpstream: {
      send: () => Promise.reject(new Error('no vendor can be reached in this test')),
      close: async () => {},
    },
    openEgress: openSandboxEgress,
    // Resolved from the checkout's root, because a bundle of this file lies elsewhere.
    insidePrograms: join(checkout(), 'dist', 'inside'),
    node: nodeInside(process.execPath),
    gitconfig: '',
    stallMs: 60_000,
    freeSpace: async () => ({ bytes: 2 ** 40, files: 2 ** 30 }),
    diskBytes: async () => 2 ** 42,
    measureFolder: async () => 0,
    onClosed: async () => {},
    ...changes,
  } satisfies ExecutorDependencies)
}

function checkout(): string {
  const [above = ''] = fileURLToPath(import.meta.url).split(/\/(?:test|node_modules)\//, 1)
  return above
}

export function jobOf(script: readonly string[], changes: Partial<AgentJob> = {}): AgentJob {
  const description = ['```switchyard', ...script, '```'].join('\n')
  return {
    kind: 'run',
    run: { id: RUN, ticket: { identifier: 'A-1', title: 'x', url: '', labels: [], description } },
    repo: { key: 'a', remote: 'o/a', defaultBranch: 'main' },
    branch: 'switchyard/a-1',
    base: 'main',
    agent: { provider: 'agentA', command: 'scripted-agent', instructions: '', memories: [] },
    credentials: {},
    sandbox: { network: 'none', allowedHosts: [], maxProcesses: 256, exposeCodehostToken: false },
    limits: {},
    retentionHours: 1,
    ...changes,
  } as unknown as AgentJob
}

/** Executes the job and retains its sandbox. */
export async function executeJob(
  executor: ClosableExecutor,
  job: AgentJob = jobOf(['write kept.txt', '  kept']),
): Promise<void> {
  const reporter = { report: () => {}, waitForCapacity: async () => {} }
  const execution = executor.start({ leaseId: 'ls-1', workerId: 'wk-1', job }, reporter, () => {})
  const prepared = await execution.prepare()
  if (!prepared.ok) throw new Error(prepared.refusal.message)
  const worked = await execution.runAgent()
  if (worked.verdict !== 'done') throw new Error(worked.reason)
  await execution.finish(worked)
  await execution.whenExited()
}

export interface OpenTerminal {
  readonly booted: BootedSandbox
  readonly session: TerminalSession
  /** Everything printed so far. */
  readonly text: () => string
  /** Resolves when the text was printed after the text of the previous wait. */
  waitForText(text: string | RegExp, ms?: number): Promise<void>
  readonly ended: Promise<number>
}

export async function bootSandbox(
  executor: ClosableExecutor,
  value: string = KEY,
  more: Pick<RunCredentials, 'keyInSandbox'> = {},
): Promise<BootedSandbox> {
  const credentials = { agent: { kind: 'api-key' as const, value }, ...more }
  const answer = await executor.boot({ runId: RUN, credentials })
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

export function openTerminal(sandbox: BootedSandbox, size: TerminalSize = SIZE): OpenTerminal {
  let [text, seen] = ['', 0]
  let end: (code: number) => void = () => {}
  const ended = new Promise<number>((resolve) => {
    end = resolve
  })
  let check = () => {}
  const printed = (data: string) => {
    text += data
    check()
  }
  const session = sandbox.open(size, { onOutput: printed, onExit: (code) => end(code) })
  const find = (wanted: string | RegExp): number => {
    const rest = text.slice(seen)
    const at = typeof wanted === 'string' ? rest.indexOf(wanted) : rest.search(wanted)
    if (at < 0) return -1
    return seen + at + (typeof wanted === 'string' ? wanted.length : (wanted.exec(rest)?.[0].length ?? 0))
  }
  const sees = (wanted: string | RegExp, ms = SEEN_MS_MAX) =>
    new Promise<void>((resolve, reject) => {
      const late = () => reject(new Error(`waited for ${wanted} in ${JSON.stringify(text.slice(-400))}`))
      const timer = setTimeout(late, ms)
      check = () => {
        if (find(wanted) < 0) return
        seen = find(wanted)
        check = () => {}
        clearTimeout(timer)
        resolve()
      }
      check()
    })
  return { booted: sandbox, session, text: () => text, waitForText: sees, ended }
}
