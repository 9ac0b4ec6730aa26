/**
 * The scripted agent's tools: files below the working directory, commands, git, and network checks.
 *
 * Each tool returns a text and whether it failed; no script can make a tool throw.
 */
import { existsSync, lstatSync, realpathSync } from 'node:fs'
import { appendFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { checkHost } from './network-check.ts'
import type { ScriptStep } from './script.ts'
import { runShell } from './shell.ts'

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
    return fail(error instanceof Error ? error.message : String(error))
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
