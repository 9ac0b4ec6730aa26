/**
 * A process that starts programs by a function of the product while few file descriptors, or none, are left.
 *
 * descriptors-child <function> <folder>: prints an answer for each number of free descriptors, then one for plenty
 */
import { spawnSync } from 'node:child_process'
import { closeSync, openSync, writeSync } from 'node:fs'
import { realClock } from '../../bin/process/clock.ts'
import { runShell } from '../../examples/scripted-agent/program/tools.ts'
import { createGitRunner } from '../../providers/codehost/local/git-run.ts'
import { startProgram } from '../../providers/run-program.ts'
import { createGit } from '../../worker/git/git.ts'
import { thisMachine } from '../../worker/sandbox/local-machine.ts'

/** More than any of the functions needs. */
const FREE_MAX = 24
const OPEN_FILES_MAX = 1_024

const [name = '', folder = ''] = process.argv.slice(2)
const git = createGit({ folder, clock: realClock })
const { signal } = new AbortController()
const calls: Readonly<Record<string, () => Promise<unknown>>> = {
  'code host': () => createGitRunner(realClock)(folder)({ args: ['version'] }),
  git: () => git.run({ args: ['version'], timeoutMs: 20_000 }),
  probe: () =>
    thisMachine().run({ program: '/bin/sh', args: ['-c', 'cat <&3'], inputs: ['ready'], timeoutMs: 5_000 }),
  shell: () => runShell(['/bin/echo', 'ready'], { cwd: folder, signal }),
  program: () =>
    startProgram({ program: '/bin/echo', args: ['ready'], folder, environment: {}, msMax: 20_000 }, realClock)
      .ended,
}

if (process.env.IS_LIMITED === undefined) {
  const limited = ['-c', `ulimit -n ${OPEN_FILES_MAX} && exec "$0" "$@"`, process.execPath]
  const env = { ...process.env, IS_LIMITED: 'yes' }
  const { status } = spawnSync('/bin/sh', [...limited, ...process.argv.slice(1)], { stdio: 'inherit', env })
  process.exitCode = status ?? 1
} else {
  for (let free = 0; free <= FREE_MAX; free++) await callWith(free)
  print(await calls[name]?.())
}

async function callWith(free: number): Promise<void> {
  const held = holdAll()
  for (const fd of held.splice(0, free)) closeSync(fd)
  const answer = await calls[name]?.()
  for (const fd of held) closeSync(fd)
  print(answer)
}

function holdAll(): number[] {
  const held: number[] = []
  for (;;)
    try {
      held.push(openSync('/dev/null', 'r'))
    } catch {
      return held
    }
}

function print(answer: unknown): void {
  writeSync(1, `${JSON.stringify(answer)}\n`)
}
