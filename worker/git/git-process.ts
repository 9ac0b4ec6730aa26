/**
 * Runs one process of git: its own process group, without inherited file descriptors, and with output of limited size.
 *
 * The whole group is killed when the call times out or is aborted, and when git ends but leaves a child behind.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { createRedactor } from '../../core/redact-secrets.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { isDiskFull, messageOf } from '../../protocol/message-of.ts'
import { coverInheritedFds, listInheritableFds, requirePipes } from '../sandbox/descriptors.ts'
import type { GitCall, GitOptions, GitResult } from './git.ts'
import { TOKEN_FD } from './git-environment.ts'
import { lastLines } from './git-errors.ts'
import { TOKEN_USER } from './resolve-remote.ts'

const OUTPUT_CHARS_MAX = 256 * 1024
const STDERR_CHARS_MAX = 16 * 1024
/** The token is written this many times: git asks once per connection, and one command opens few connections. */
const TOKEN_LINES = 4
/** Exit codes of the shell if it cannot start git; git itself never uses them. */
const NOT_STARTED_CODES: readonly number[] = [126, 127]

/** Starts a process that inherits none of this process's file descriptors, such as the database's. */
export function spawnIsolated(
  program: string,
  args: readonly string[],
  env: Record<string, string>,
  input: number | 'ignore',
): ChildProcess {
  const nullDevice = openSync('/dev/null', 'r')
  try {
    const own = [input, 'pipe', 'pipe', 'pipe', 'pipe'] as const
    const stdio = coverInheritedFds<number | 'ignore' | 'pipe'>(own, listInheritableFds(), nullDevice)
    return requirePipes(spawn(program, args, { env, cwd: '/', detached: true, stdio }))
  } finally {
    closeSync(nullDevice)
  }
}

/** Ignores write errors, because git may end without reading the token. */
export function writeToken(child: ChildProcess, token: string | undefined): void {
  // Node creates a duplex stream for each extra pipe.
  const pipe = child.stdio[TOKEN_FD] as Writable | null | undefined
  pipe?.on('error', () => {}).end(token === undefined ? '' : `${token}\n`.repeat(TOKEN_LINES))
}

export async function waitForEnd(
  child: ChildProcess,
  call: GitCall,
  clock: GitOptions['clock'],
): Promise<Result<GitResult>> {
  const redact = redactorFor(call.remote?.token)
  const reading = readWhole(child.stdout, call.readOutput)
  const keepsOutput = call.readOutput === undefined
  const output = keepStart(keepsOutput ? child.stdout : null, call.outputCharsMax)
  const stderr = keepEnd(child.stderr)
  const hasFound = call.searchFor === undefined ? undefined : watchFor(child.stdout, call.searchFor)
  let stopReason: Result<GitResult> | undefined
  const stop = (reason: Result<GitResult>) => {
    stopReason ??= reason
    killGroup(child)
  }
  const abort = () => stop(stopped(call))
  call.signal?.addEventListener('abort', abort, { once: true })
  // The signal may have been aborted while git was starting.
  if (call.signal?.aborted === true) abort()
  const cancel = clock.after(call.timeoutMs, () => stop(timedOut(call)))
  const end = await new Promise<Result<GitResult>>((resolve) => {
    child.on('error', (error) => resolve(notStarted(error.message)))
    // Children that git left running would keep its pipes open.
    child.on('exit', () => killGroup(child))
    child.on('close', (code) => {
      // A process that never started emits `close` too, before or after `error`.
      if (child.pid === undefined) return
      if (code !== null && NOT_STARTED_CODES.includes(code)) return resolve(notStarted(lastLines(stderr())))
      const exit = code === null ? {} : { code }
      const seen = hasFound === undefined ? {} : { hasFound: hasFound() }
      resolve(yes({ ...exit, ...seen, output: redact(output()), stderr: redact(stderr()) }))
    })
  })
  cancel()
  call.signal?.removeEventListener('abort', abort)
  const wasRead = await reading
  for (const stream of child.stdio) stream?.destroy()
  // The words of git about its own end tell more than an incomplete output.
  const hasFailed = end.ok && end.value.code !== undefined && end.value.code !== 0
  return stopReason ?? (end.ok && !wasRead.ok && !hasFailed ? wasRead : end)
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // The group has ended already.
  }
}

const commandNameOf = ({ args }: GitCall): string => `git ${args[0] ?? ''}`

export function stopped(call: GitCall) {
  return no('conflict', `${commandNameOf(call)} was stopped`)
}

function timedOut(call: GitCall) {
  return no('failed', `${commandNameOf(call)} took longer than ${call.timeoutMs / 1000} s and was ended`)
}

export function notStarted(reason: string) {
  return no('failed', `git could not be started (${reason}); install git on the worker`)
}

// ---- output ------------------------------------------------------------------------------------------------------

export function keepStart(stream: Readable | null, charsMax = OUTPUT_CHARS_MAX): () => string {
  let text = ''
  stream?.setEncoding('utf8').on('data', (part: string) => {
    if (text.length < charsMax) text = (text + part).slice(0, charsMax)
  })
  return () => text
}

/** A match may span two chunks, so the end of one chunk is searched together with the next. */
export function watchFor(stream: Readable | null, text: string): () => boolean {
  let hasFound = false
  let end = ''
  stream?.on('data', (part: string) => {
    const seen = end + part
    hasFound ||= seen.includes(text)
    end = seen.slice(1 - text.length)
  })
  return () => hasFound
}

/** A reader that fails also ends git, because nobody takes its output any more. */
export async function readWhole(
  output: Readable | null,
  read: ((output: Readable) => Promise<void>) | undefined,
): Promise<Result<void>> {
  if (output === null || read === undefined) return yes(undefined)
  try {
    await read(output)
    return yes(undefined)
  } catch (error) {
    return no(
      isDiskFull(error) ? 'unavailable' : 'failed',
      `git’s output could not be read: ${messageOf(error)}`,
    )
  } finally {
    output.destroy()
  }
}

export function keepEnd(stream: Readable | null): () => string {
  let text = ''
  stream?.setEncoding('utf8').on('data', (part: string) => {
    text = (text + part).slice(-STDERR_CHARS_MAX)
  })
  return () => text
}

/** Git hides passwords in addresses, but the server's response may contain the token. */
export function redactorFor(token: string | undefined): (text: string) => string {
  // Also redact the Basic header: base64 of `user:token` differs from base64 of the token alone.
  return createRedactor([Buffer.from(`${TOKEN_USER}:${token}`).toString('base64'), token])
}
