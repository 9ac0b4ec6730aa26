/**
 * What the scripted agent does with its hands: files below the working directory, commands, git, a look at the network.
 *
 * Each answers a text, as a tool would, and whether it went wrong. Nothing here throws for what a script can ask.
 */
import { existsSync, lstatSync, realpathSync } from 'node:fs'
import { appendFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { knock } from './network-check.ts'
import type { Deed } from './script.ts'
import { shell } from './shell.ts'

export interface Surroundings {
  readonly cwd: string
  readonly artifacts: string
  readonly memories: string
  readonly env: Readonly<Record<string, string | undefined>>
}

export interface ToolEnd {
  readonly text: string
  readonly isError: boolean
}

/** Deeds that are a tool's use; `subagent` is not one's own doing. */
export type ToolDeed = Extract<
  Deed,
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

/** The tool and its input, as the agent it stands for would have put it. */
export function toolOf(
  deed: ToolDeed,
  { artifacts, memories }: Surroundings,
): { name: string; input: object } {
  switch (deed.does) {
    case 'write':
      return { name: 'Write', input: { file_path: deed.path, content: deed.body } }
    case 'append':
      return { name: 'Edit', input: { file_path: deed.path, old_string: '', new_string: deed.body } }
    case 'edit':
      return {
        name: 'Edit',
        input: { file_path: deed.path, old_string: deed.before, new_string: deed.after },
      }
    case 'delete':
      return { name: 'Bash', input: { command: `rm -r ${deed.path}`, description: 'delete' } }
    case 'run':
    case 'try':
      return { name: 'Bash', input: { command: deed.command } }
    case 'commit':
      return { name: 'Bash', input: { command: 'git add --all && git commit', description: deed.text } }
    case 'remember':
      return { name: 'Edit', input: { file_path: memories, old_string: '', new_string: deed.text } }
    case 'artifact':
      return { name: 'Write', input: { file_path: join(artifacts, deed.path), content: deed.body } }
    case 'ask-network':
      return {
        name: 'WebFetch',
        input: { url: `https://${deed.host}:${deed.port}/`, prompt: 'is it there?' },
      }
  }
}

export async function use(deed: ToolDeed, around: Surroundings, signal: AbortSignal): Promise<ToolEnd> {
  try {
    return await useIt(deed, around, signal)
  } catch (error) {
    return wrong(error instanceof Error ? error.message : String(error))
  }
}

function useIt(deed: ToolDeed, around: Surroundings, signal: AbortSignal): Promise<ToolEnd> {
  switch (deed.does) {
    case 'write':
      return write(around.cwd, deed.path, deed.body)
    case 'append':
      return append(around.cwd, deed.path, deed.body)
    case 'edit':
      return edit(around.cwd, deed.path, deed.before, deed.after)
    case 'delete':
      return remove(around.cwd, deed.path)
    case 'run':
    case 'try':
      return run(['/bin/sh', '-c', deed.command], around.cwd, signal)
    case 'commit':
      return commit(around.cwd, deed.text, signal)
    case 'remember':
      return remember(around.memories, deed.text)
    case 'artifact':
      return leave(around.artifacts, deed.path, deed.body)
    case 'ask-network':
      return knock(deed.host, deed.port, around.env, signal).then(right)
  }
}

const right = (text: string): ToolEnd => ({ text, isError: false })
const wrong = (text: string): ToolEnd => ({ text, isError: true })

// ---- files -------------------------------------------------------------------------------------------------------

async function write(cwd: string, path: string, body: string): Promise<ToolEnd> {
  const place = placeIn(cwd, path)
  if (place === undefined) return outside(path)
  await mkdir(dirname(place), { recursive: true })
  await writeFile(place, body)
  return right(`${path} has ${Buffer.byteLength(body)} bytes`)
}

async function append(cwd: string, path: string, body: string): Promise<ToolEnd> {
  const place = placeIn(cwd, path)
  if (place === undefined) return outside(path)
  await mkdir(dirname(place), { recursive: true })
  await appendFile(place, body)
  return right(`${path} has ${Buffer.byteLength(body)} bytes more`)
}

async function edit(cwd: string, path: string, before: string, after: string): Promise<ToolEnd> {
  const place = placeIn(cwd, path)
  if (place === undefined) return outside(path)
  const text = await readFile(place, 'utf8')
  const times = text.split(before).length - 1
  if (times !== 1) return wrong(`the text to be replaced is ${times} times in ${path}; it must be there once`)
  await writeFile(
    place,
    text.replace(before, () => after),
  )
  return right(`${path} is changed`)
}

async function remove(cwd: string, path: string): Promise<ToolEnd> {
  const place = placeIn(cwd, path)
  if (place === undefined || place === resolve(cwd)) return outside(path)
  await rm(place, { recursive: true })
  return right(`${path} is gone`)
}

/** Where a path leads, links followed; undefined when that is not below the working directory. */
export function placeIn(cwd: string, path: string): string | undefined {
  if (path.includes('\0')) return undefined
  const place = resolve(cwd, path)
  if (!isWithin(resolve(cwd), place)) return undefined
  let known = place
  while (!isThere(known)) known = dirname(known)
  return existsSync(known) && isWithin(realpathSync(cwd), realpathSync(known)) ? place : undefined
}

function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : `${folder}${sep}`)
}

/** A link that leads nowhere is there, too: writing through it would make what it names. */
function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

function outside(path: string): ToolEnd {
  return wrong(`${path} is not below the working directory`)
}

async function leave(folder: string, name: string, body: string): Promise<ToolEnd> {
  if (name !== basename(name) || name === '.' || name === '..')
    return wrong(`${name} is not a plain file name`)
  if (!existsSync(folder)) return wrong(`nobody collects artifacts: there is no ${folder}`)
  await writeFile(join(folder, name), body)
  return right(`${name} has ${Buffer.byteLength(body)} bytes`)
}

/** One fact a line: a body's lines become one. */
async function remember(file: string, fact: string): Promise<ToolEnd> {
  if (!existsSync(dirname(file))) return wrong(`nobody collects memories: there is no ${dirname(file)}`)
  await appendFile(file, `${fact.replace(/\s+/g, ' ')}\n`)
  return right('remembered')
}

// ---- commands ----------------------------------------------------------------------------------------------------

async function run(
  command: readonly [string, ...string[]],
  cwd: string,
  signal: AbortSignal,
): Promise<ToolEnd> {
  const { output, code } = await shell(command, { cwd, signal })
  if (code === 0) return right(output)
  const how = code === undefined ? 'it was killed' : `exit code ${code}`
  return wrong(output === '' ? how : `${output}\n(${how})`)
}

async function commit(cwd: string, message: string, signal: AbortSignal): Promise<ToolEnd> {
  const added = await run(['git', 'add', '--all'], cwd, signal)
  if (added.isError) return added
  const who = await run(['git', 'config', 'user.email'], cwd, signal)
  const as = who.isError ? ['-c', 'user.name=scripted-agent', '-c', 'user.email=agent@localhost'] : []
  return run(['git', ...as, 'commit', '--message', message], cwd, signal)
}
