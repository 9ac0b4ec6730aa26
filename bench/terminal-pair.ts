/**
 * Terminals to compare: the session of a finished run, looked at through its worker and its host, and the same program
 * in a pseudo-terminal of this machine.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Child, Workshop } from './bench-resources.ts'
import type { Seen, ViewOrder } from './raw/terminal-protocol.ts'
import { WorkingYard } from './working-host.ts'

/** What the scripted agent says before it asks for something to do. */
const GREETING = '/exit leaves.'
/** Its prompt is there by then, and whatever it prints once. */
const SETTLED_MS = 300

export interface Terminal {
  readonly view: Child
  /** Where its program looks for files. */
  readonly folder: string
  /** Processes that pass on what it prints, from the terminal to the view's socket. */
  readonly pids: readonly number[]
  leave(): Promise<void>
}

export interface OurTerminal extends Terminal {
  readonly yard: WorkingYard
  /** Of the attach socket. */
  readonly path: string
}

export async function ourTerminal(workshop: Workshop): Promise<OurTerminal> {
  const yard = await WorkingYard.open(workshop)
  const run = await yard.completed(yard.ticket(['say Nothing to do.']))
  const path = `/ws/runs/${run.id}/attach?token=${yard.served.token}`
  const view = await opened(workshop.script('bench/raw/terminal-viewer.ts', String(yard.served.port), path))
  const leave = async (): Promise<void> => {
    await view.stop()
    // Or the worker would wait for somebody to come back.
    await yard.ask(`/api/runs/${run.id}/release`, 'POST')
    await yard.leave()
  }
  const pids = [yard.served.child.pid, yard.worker.pid, terminalBelow(yard.worker.pid)]
  return { yard, path, view, folder: join(yard.folderOf(run), 'work'), pids, leave }
}

/** The program that holds the terminal inside the sandbox, somewhere below the worker. */
function terminalBelow(pid: number): number {
  for (const child of readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter(Boolean)) {
    const found = isTerminal(child) ? Number(child) : terminalBelow(Number(child))
    if (!Number.isNaN(found)) return found
  }
  return Number.NaN
}

/** bubblewrap has all of that in its arguments, too. */
const isTerminal = (pid: string): boolean =>
  /^[^\0]*node\0[^\0]*\/terminal\.js\0/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))

/** In frames, over a socket. */
export async function framedTerminal(workshop: Workshop): Promise<Terminal> {
  const folder = workshop.folder('framed')
  const server = bare(workshop, 'socket', folder)
  const view = await opened(workshop.script('bench/raw/terminal-viewer.ts', await server.line(), '/'))
  const leave = async (): Promise<void> => {
    await view.stop()
    await server.stop()
    workshop.removeFolder(folder)
  }
  return { view, folder, pids: [server.pid], leave }
}

/** Nothing between the terminal and who types. */
export async function bareTerminal(workshop: Workshop): Promise<Terminal> {
  const folder = workshop.folder('bare')
  const view = await opened(bare(workshop, 'alone', folder))
  const leave = async (): Promise<void> => {
    await view.stop()
    workshop.removeFolder(folder)
  }
  return { view, folder, pids: [view.pid], leave }
}

/** The very program that a session of ours is. */
function bare(workshop: Workshop, how: 'socket' | 'alone', folder: string): Child {
  const agent = join(workshop.root, 'dist', 'inside', 'scripted-agent.js')
  return workshop.script('bench/raw/bare-pty.ts', how, folder, process.execPath, agent)
}

async function opened(view: Child): Promise<Child> {
  await view.line()
  await told<Seen>(view, { do: 'see', until: GREETING })
  await sleep(SETTLED_MS)
  return view
}

/** What a view of ours answers. */
export async function told<A>(view: Child, order: ViewOrder): Promise<A> {
  view.say(JSON.stringify(order))
  return JSON.parse(await view.line()) as A
}
