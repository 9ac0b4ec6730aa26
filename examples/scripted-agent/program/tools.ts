/**
 * The scripted agent's tools: files below the working directory, commands, git, and network checks.
 *
 * Each tool returns a text and whether it failed; no script can make a tool throw.
 */
import { spawn } from 'node:child_process'
import { existsSync, lstatSync, realpathSync } from 'node:fs'
import { appendFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { basename, delimiter, dirname, join, resolve, sep } from 'node:path'
import { messageOf } from '../../../protocol/message-of.ts'
import type { ScriptStep } from './script.ts'

export interface ToolEnvironment {
  readonly cwd: string
  readonly artifacts: string
  readonly memories: string
  readonly env: Readonly<Record<string, string | undefined>>
}

export interface ToolResult {
  readonly text: string
  readonly isError: boolean
}

/** The steps that run a tool. */
export type ToolStep = Extract<
  ScriptStep,
  {
    does:
      | 'write'
      | 'append'
      | 'edit'
      | 'delete'
      | 'run'
      | 'try'
      | 'commit'
      | 'remember'
      | 'artifact'
      | 'ask-network'
  }
>

/** Describes the tool call as agentA would write it. */
export function describeToolUse(
  step: ToolStep,
  { artifacts, memories }: ToolEnvironment,
): { name: string; input: object } {
  switch (step.does) {
    case 'write':
      return { name: 'Write', input: { file_path: step.path, content: step.body } }
    case 'append':
      return { name: 'Edit', input: { file_path: step.path, old_string: '', new_string: step.body } }
    case 'edit':
      return {
        name: 'Edit',
        input: { file_path: step.path, old_string: step.before, new_string: step.after },
      }
    case 'delete':
      return { name: 'Bash', input: { command: `rm -r ${step.path}`, description: 'delete' } }
    case 'run':
    case 'try':
      return { name: 'Bash', input: { command: step.command } }
    case 'commit':
      return { name: 'Bash', input: { command: 'git add --all && git commit', description: step.text } }
    case 'remember':
      return { name: 'Edit', input: { file_path: memories, old_string: '', new_string: step.text } }
    case 'artifact':
      return { name: 'Write', input: { file_path: join(artifacts, step.path), content: step.body } }
    case 'ask-network':
      return {
        name: 'WebFetch',
        input: { url: `https://${step.host}:${step.port}/`, prompt: 'is it there?' },
      }
  }
}

export async function useTool(
  step: ToolStep,
  environment: ToolEnvironment,
  signal: AbortSignal,
): Promise<ToolResult> {
  try {
    return await runTool(step, environment, signal)
  } catch (error) {
    return fail(messageOf(error))
  }
}

function runTool(step: ToolStep, environment: ToolEnvironment, signal: AbortSignal): Promise<ToolResult> {
  switch (step.does) {
    case 'write':
      return writeFileAt(environment.cwd, step.path, step.body)
    case 'append':
      return appendToFile(environment.cwd, step.path, step.body)
    case 'edit':
      return editFile(environment.cwd, step.path, step.before, step.after)
    case 'delete':
      return removeFile(environment.cwd, step.path)
    case 'run':
    case 'try':
      return runCommand(['/bin/sh', '-c', step.command], environment.cwd, signal)
    case 'commit':
      return commitAll(environment.cwd, step.text, signal)
    case 'remember':
      return recordMemory(environment.memories, step.text)
    case 'artifact':
      return writeArtifact(environment.artifacts, step.path, step.body)
    case 'ask-network':
      return checkHost(step.host, step.port, environment.env, signal).then(succeed)
  }
}

const succeed = (text: string): ToolResult => ({ text, isError: false })
const fail = (text: string): ToolResult => ({ text, isError: true })

// ---- files -------------------------------------------------------------------------------------------------------

async function writeFileAt(cwd: string, path: string, body: string): Promise<ToolResult> {
  const place = resolveInside(cwd, path)
  if (place === undefined) return failOutside(path)
  await mkdir(dirname(place), { recursive: true })
  await writeFile(place, body)
  return succeed(`${path} has ${Buffer.byteLength(body)} bytes`)
}

async function appendToFile(cwd: string, path: string, body: string): Promise<ToolResult> {
  const place = resolveInside(cwd, path)
  if (place === undefined) return failOutside(path)
  await mkdir(dirname(place), { recursive: true })
  await appendFile(place, body)
  return succeed(`${path} has ${Buffer.byteLength(body)} bytes more`)
}

async function editFile(cwd: string, path: string, before: string, after: string): Promise<ToolResult> {
  const place = resolveInside(cwd, path)
  if (place === undefined) return failOutside(path)
  const text = await readFile(place, 'utf8')
  const occurrences = text.split(before).length - 1
  if (occurrences !== 1)
    return fail(`the text to be replaced is ${occurrences} times in ${path}; it must be there once`)
  await writeFile(
    place,
    text.replace(before, () => after),
  )
  return succeed(`${path} is changed`)
}

async function removeFile(cwd: string, path: string): Promise<ToolResult> {
  const place = resolveInside(cwd, path)
  if (place === undefined || place === resolve(cwd)) return failOutside(path)
  await rm(place, { recursive: true })
  return succeed(`${path} is gone`)
}

/** Resolves a path including links. Returns undefined when the target is not below the working directory. */
export function resolveInside(cwd: string, path: string): string | undefined {
  if (path.includes('\0')) return undefined
  const target = resolve(cwd, path)
  if (!isWithin(resolve(cwd), target)) return undefined
  let existing = target
  while (!exists(existing)) existing = dirname(existing)
  return existsSync(existing) && isWithin(realpathSync(cwd), realpathSync(existing)) ? target : undefined
}

function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : `${folder}${sep}`)
}

/** A dangling link counts as existing, because writing through it would create its target. */
function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

function failOutside(path: string): ToolResult {
  return fail(`${path} is not below the working directory`)
}

async function writeArtifact(folder: string, name: string, body: string): Promise<ToolResult> {
  if (name !== basename(name) || name === '.' || name === '..')
    return fail(`${name} is not a plain file name`)
  if (!existsSync(folder)) return fail(`artifacts cannot be collected: ${folder} does not exist`)
  await writeFile(join(folder, name), body)
  return succeed(`${name} has ${Buffer.byteLength(body)} bytes`)
}

/** Memories are one fact per line, so the lines of a body are joined. */
async function recordMemory(file: string, fact: string): Promise<ToolResult> {
  if (!existsSync(dirname(file))) return fail(`memories cannot be collected: ${dirname(file)} does not exist`)
  await appendFile(file, `${fact.replace(/\s+/g, ' ')}\n`)
  return succeed('remembered')
}

// ---- commands ----------------------------------------------------------------------------------------------------

async function runCommand(
  command: readonly [string, ...string[]],
  cwd: string,
  signal: AbortSignal,
): Promise<ToolResult> {
  const { output, code } = await runShell(command, { cwd, signal })
  if (code === 0) return succeed(output)
  const how = code === undefined ? 'it was killed' : `exit code ${code}`
  return fail(output === '' ? how : `${output}\n(${how})`)
}

async function commitAll(cwd: string, message: string, signal: AbortSignal): Promise<ToolResult> {
  const added = await runCommand(['git', 'add', '--all'], cwd, signal)
  if (added.isError) return added
  const who = await runCommand(['git', 'config', 'user.email'], cwd, signal)
  const as = who.isError ? ['-c', 'user.name=scripted-agent', '-c', 'user.email=agent@localhost'] : []
  return runCommand(['git', ...as, 'commit', '--message', message], cwd, signal)
}

const CHECK_MS_MAX = 10_000
const ANSWER_CHARS_MAX = 300

type Env = Readonly<Record<string, string | undefined>>

/**
 * Checks whether a host can be reached, through the proxy of the environment or directly.
 *
 * Resolves with `reached` or a sentence that starts with `refused`; never rejects.
 */
function checkHost(host: string, port: number, env: Env, signal: AbortSignal): Promise<string> {
  const proxy = findProxy(env)
  return proxy === undefined
    ? checkDirectly(host, port, signal)
    : checkThroughProxy(proxy, host, port, signal)
}

function findProxy(env: Env): URL | undefined {
  const address = env.HTTPS_PROXY ?? env.https_proxy ?? ''
  return URL.canParse(address) ? new URL(address) : undefined
}

function checkDirectly(host: string, port: number, signal: AbortSignal): Promise<string> {
  return connectAndAsk(withoutBrackets(host), port, signal, undefined)
}

function checkThroughProxy(proxy: URL, host: string, port: number, signal: AbortSignal): Promise<string> {
  const target = `${host}:${port}`
  const request = `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`
  return connectAndAsk(withoutBrackets(proxy.hostname), Number(proxy.port || 80), signal, request)
}

/** URLs write IPv6 addresses in brackets; sockets take them without. */
const withoutBrackets = (host: string): string => host.replace(/^\[|\]$/g, '')

function connectAndAsk(
  host: string,
  port: number,
  signal: AbortSignal,
  request: string | undefined,
): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const finish = (text: string) => {
      signal.removeEventListener('abort', stop)
      socket.destroy()
      resolve(text)
    }
    const stop = () => finish('interrupted')
    signal.addEventListener('abort', stop, { once: true })
    socket.setTimeout(CHECK_MS_MAX, () => finish('refused: no answer in time'))
    socket.on('error', (error) => finish(`refused: ${error.message}`))
    socket.on('end', () => finish('refused: the connection was closed'))
    socket.on('connect', () => (request === undefined ? finish('reached') : socket.write(request)))
    socket.on('data', (bytes) => finish(judgeReply(bytes.toString('latin1'))))
  })
}

function judgeReply(text: string): string {
  const [status = '', ...rest] = text.slice(0, ANSWER_CHARS_MAX).split('\r\n')
  return /^HTTP\/1\.\d 200/.test(status) ? 'reached' : `refused: ${[status, rest.at(-1)].join(' ').trim()}`
}

interface ShellResult {
  /** Both streams in arrival order. */
  readonly output: string
  /** Absent when the command was killed. */
  readonly code?: number
}

const OUTPUT_HALF_BYTES_MAX = 32 * 1024
const COMMAND_MS_MAX = 600_000

/**
 * Runs a command of the script in its own process group, so that no process of it outlives the command.
 *
 * The output is limited: its beginning and end are kept, and the middle is only counted.
 *
 * Never rejects. Aborting `signal` kills the command.
 */
export function runShell(
  command: readonly [program: string, ...args: string[]],
  options: { readonly cwd: string; readonly signal: AbortSignal },
): Promise<ShellResult> {
  const [program, ...args] = command
  return new Promise((resolve) => {
    const kept = new BoundedOutput()
    const child = spawn(program, args, {
      env: childEnvironment(),
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    const kill = () => killGroup(child.pid)
    const timer = setTimeout(kill, COMMAND_MS_MAX)
    options.signal.addEventListener('abort', kill, { once: true })
    if (options.signal.aborted) kill()
    const done = (end: ShellResult) => {
      clearTimeout(timer)
      options.signal.removeEventListener('abort', kill)
      resolve(end)
    }
    child.on('error', (error) => done({ output: `${program} cannot be started: ${error.message}` }))
    // Without free descriptors Node creates no pipes, and emits the error a moment later.
    if (child.stdout === undefined) return
    child.stdout.on('data', (bytes: Buffer) => kept.add(bytes))
    child.stderr.on('data', (bytes: Buffer) => kept.add(bytes))
    // Background children still hold the streams open, so kill the whole group.
    child.on('exit', kill)
    child.on('close', (code) => done({ output: kept.text(), ...(code === null ? {} : { code }) }))
  })
}

/** Adds the folder of the running Node to the PATH, so that scripts can run `node`. */
function childEnvironment(): NodeJS.ProcessEnv {
  const own = dirname(process.execPath)
  const path = process.env.PATH ?? '/usr/bin:/bin'
  return { ...process.env, PATH: path.split(delimiter).includes(own) ? path : `${path}${delimiter}${own}` }
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // The group has ended.
  }
}

class BoundedOutput {
  #head = Buffer.alloc(0)
  #tail = Buffer.alloc(0)
  #dropped = 0

  add(bytes: Buffer): void {
    const headBytesLeft = OUTPUT_HALF_BYTES_MAX - this.#head.length
    this.#head = Buffer.concat([this.#head, bytes.subarray(0, headBytesLeft)])
    this.#tail = Buffer.concat([this.#tail, bytes.subarray(headBytesLeft)])
    const excess = Math.max(0, this.#tail.length - OUTPUT_HALF_BYTES_MAX)
    this.#dropped += excess
    this.#tail = this.#tail.subarray(excess)
  }

  text(): string {
    const gap = this.#dropped === 0 ? '' : `\n… ${this.#dropped} bytes are left out …\n`
    return `${this.#head.toString()}${gap}${this.#tail.toString()}`.trimEnd()
  }
}
