/**
 * Opens terminals to compare: the session of a finished run, seen through its worker and host, and the same program
 * in a local pseudo-terminal.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchProcess, BenchResources } from './bench-resources.ts'
import type { TextFound, ViewerCommand } from './raw/terminal-protocol.ts'
import { WorkingSystem } from './working-system.ts'

/** The scripted agent prints this before its first prompt. */
const GREETING = '/exit leaves.'
/** Time for the prompt and everything else that is printed once. */
const PROMPT_MS = 300

export interface BenchTerminal {
  readonly view: BenchProcess
  /** The working directory of the terminal's program. */
  readonly folder: string
  /** Processes between the program and the view's socket. */
  readonly pids: readonly number[]
  close(): Promise<void>
}

export interface SessionTerminal extends BenchTerminal {
  readonly system: WorkingSystem
  /** Path of the attach socket. */
  readonly path: string
}

export async function openSessionTerminal(resources: BenchResources): Promise<SessionTerminal> {
  const system = await WorkingSystem.start(resources)
  const run = await system.waitForCompletion(system.addTicket(['say Nothing to do.']))
  const path = `/ws/runs/${run.id}/attach?token=${system.served.token}`
  const view = await waitForPrompt(
    resources.startScript('bench/raw/terminal-viewer.ts', String(system.served.port), path),
  )
  const leave = async (): Promise<void> => {
    await view.stop()
    // Otherwise the worker would wait for a viewer to come back.
    await system.request(`/api/runs/${run.id}/release`, 'POST')
    await system.stop()
  }
  const pids = [system.served.child.pid, system.worker.pid, findTerminalProcess(system.worker.pid)]
  return { system, path, view, folder: join(system.runFolder(run), 'work'), pids, close: leave }
}

/** Finds the program that holds the terminal inside the sandbox, among the worker's descendants. */
function findTerminalProcess(pid: number): number {
  for (const child of readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter(Boolean)) {
    const found = isTerminal(child) ? Number(child) : findTerminalProcess(Number(child))
    if (!Number.isNaN(found)) return found
  }
  return Number.NaN
}

/** bubblewrap's arguments contain these paths, too. */
const isTerminal = (pid: string): boolean =>
  /^[^\0]*node\0[^\0]*\/terminal\.js\0/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))

/** Opens a local terminal whose output comes in frames over a socket. */
export async function openFramedTerminal(resources: BenchResources): Promise<BenchTerminal> {
  const folder = resources.createFolder('framed')
  const server = startPty(resources, 'socket', folder)
  const view = await waitForPrompt(
    resources.startScript('bench/raw/terminal-viewer.ts', await server.readLine(), '/'),
  )
  const leave = async (): Promise<void> => {
    await view.stop()
    await server.stop()
    resources.removeFolder(folder)
  }
  return { view, folder, pids: [server.pid], close: leave }
}

/** Opens a local terminal in the viewing process itself. */
export async function openBareTerminal(resources: BenchResources): Promise<BenchTerminal> {
  const folder = resources.createFolder('bare')
  const view = await waitForPrompt(startPty(resources, 'alone', folder))
  const leave = async (): Promise<void> => {
    await view.stop()
    resources.removeFolder(folder)
  }
  return { view, folder, pids: [view.pid], close: leave }
}

/** Runs the same program as a session of the product. */
function startPty(resources: BenchResources, how: 'socket' | 'alone', folder: string): BenchProcess {
  const agent = join(resources.root, 'dist', 'inside', 'scripted-agent.js')
  return resources.startScript('bench/raw/bare-pty.ts', how, folder, process.execPath, agent)
}

async function waitForPrompt(view: BenchProcess): Promise<BenchProcess> {
  await view.readLine()
  await requestView<TextFound>(view, { do: 'see', until: GREETING })
  await sleep(PROMPT_MS)
  return view
}

/** Sends a command to a view and returns its response. */
export async function requestView<A>(view: BenchProcess, order: ViewerCommand): Promise<A> {
  view.writeLine(JSON.stringify(order))
  return JSON.parse(await view.readLine()) as A
}
