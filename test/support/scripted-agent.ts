/**
 * Starts the scripted agent like a sandbox does: one bundled file, a working directory, a home, and a prompt on its
 * standard input.
 */
import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach } from '@jest/globals'
import { tempFolder } from './temp-folder.ts'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
let bundled: string | undefined
const running = new Set<ChildProcessWithoutNullStreams>()

afterEach(() => {
  for (const child of running) child.kill('SIGKILL')
  running.clear()
})

export type ParsedStreamLine = Readonly<Record<string, unknown>> & { readonly type: string }

export interface AgentFolders {
  readonly cwd: string
  readonly home: string
  readonly artifacts: string
  readonly memories: string
}

export interface ScriptedAgentProcess {
  readonly process: ChildProcessWithoutNullStreams
  /** Complete lines of standard output so far. */
  readonly out: () => readonly string[]
  readonly err: () => string
  /** The lines of standard output that are JSON. */
  readonly lines: () => readonly ParsedStreamLine[]
  /** Resolves to the exit code, or to the signal that ended the process. */
  readonly ended: Promise<number | NodeJS.Signals>
}

export const HEADLESS = ['-p', '--output-format', 'stream-json', '--verbose']

export function createAgentFolders(): AgentFolders {
  const folder = tempFolder()
  const inside = (name: string) => join(folder, name)
  for (const name of ['work', 'home', 'artifacts']) mkdirSync(inside(name))
  return {
    cwd: inside('work'),
    home: inside('home'),
    artifacts: inside('artifacts'),
    memories: inside('memories'),
  }
}

export function runScriptedAgent(
  folders: AgentFolders,
  prompt: string | undefined,
  args: readonly string[] = HEADLESS,
): ScriptedAgentProcess {
  const child = spawn(process.execPath, [bundle(), ...args], {
    cwd: folders.cwd,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      HOME: folders.home,
      SWITCHYARD_ARTIFACTS: folders.artifacts,
      SWITCHYARD_MEMORIES: folders.memories,
    },
  })
  running.add(child)
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  child.stdin.on('error', () => {})
  if (prompt !== undefined) child.stdin.end(prompt)
  const whole = () => out.split('\n').slice(0, -1)
  return {
    process: child,
    out: whole,
    err: () => err,
    lines: () =>
      whole()
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line)),
    ended: new Promise((resolve) => {
      child.on('close', (code, signal) => {
        running.delete(child)
        resolve(code ?? signal ?? -1)
      })
    }),
  }
}

/** Returns a prompt like the worker writes it: prose around a script block. */
export const promptOf = (...script: readonly string[]): string =>
  ['You are working on a ticket.', '', '````switchyard', ...script, '````', '', '- a memory'].join('\n')

export function readJsonLines(path: string): readonly ParsedStreamLine[] {
  return readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

function bundle(): string {
  if (bundled !== undefined) return bundled
  const out = join(tempFolder(), 'scripted-agent.cjs')
  const options = ['--bundle', '--platform=node', '--format=cjs', '--log-level=error']
  execFileSync(join(root, 'node_modules', '.bin', 'esbuild'), [
    join(root, 'examples/scripted-agent/program/scripted-agent.ts'),
    `--outfile=${out}`,
    ...options,
  ])
  bundled = out
  return out
}
