/** Tests Landlock in real sandboxes: what it closes that the mounts leave open, and what it lets through. */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { buildSandboxArguments } from '../../../../worker/sandbox/bwrap/arguments.ts'
import { landlockedCommand, outerCommand } from '../../../../worker/sandbox/bwrap/wrapper-commands.ts'
import { createSandboxSetup, landlockProblem, ORDINARY_UID, run, sh } from '../../../support/sandbox.ts'
import { describeIf, isRoot, testIf } from '../../../support/skips.ts'

const SIGNALS_VERSION = 6
const version = Number(
  landlockProblem === undefined && execFileSync('/usr/bin/perl', ['-e', 'print syscall 444, 0, 0, 1']),
)
const setup = createSandboxSetup(ORDINARY_UID)
const path = (...names: string[]): string => join(setup.root, ...names)

/** Runs a shell script in the sandbox of an order, but with a folder of the host as its standard input. */
function runWithLeak(script: string, folder: string, hasLandlock: boolean): string {
  const { commandLine, inputs } = buildSandboxArguments({ workFolder: path('work') })
  const command = hasLandlock ? landlockedCommand(sh(script)) : sh(script)
  const { program, args } = outerCommand('/usr/bin/bwrap', commandLine, command)
  const opened = inputs.map((input, at) => {
    writeFileSync(path(`input-${at}`), input)
    return openSync(path(`input-${at}`), 'r')
  })
  const { stdout, stderr } = spawnSync(program, args, {
    env: {},
    stdio: [openSync(folder, 'r'), 'pipe', 'pipe', ...opened],
    ...(isRoot ? { uid: ORDINARY_UID, gid: ORDINARY_UID } : {}),
  })
  return `${stdout}${stderr}`
}

describeIf(landlockProblem === undefined, 'needs Landlock')('a sandbox with Landlock', () => {
  test('opens nothing below a folder of the host whose descriptor it holds', () => {
    const folder = path('of-the-host')
    mkdirSync(folder)
    writeFileSync(join(folder, 'secret'), 'of the host')
    chmodSync(folder, 0o777)
    const script =
      'cat /proc/self/fd/0/secret; ls /proc/self/fd/0/; echo new > /proc/self/fd/0/file && echo made'
    expect(runWithLeak(script, folder, false)).toMatch(/^of the host.*secret.*made/s)
    const held = runWithLeak(script, folder, true)
    expect(held.match(/Permission denied/g)).toHaveLength(3)
    expect(held).not.toMatch(/of the host|made/)
  })

  test('makes no device file, where every user may make one', async () => {
    const script = 'mknod /tmp/device c 0 0 2>&1'
    expect(runWithLeak(script, path('work'), false)).toBe('')
    expect(await run(createSandboxSetup().order(sh(script)))).toMatchObject({
      out: expect.stringContaining('Permission denied'),
      end: { code: 1 },
    })
  })

  testIf(version >= SIGNALS_VERSION, 'needs Linux 6.12')(
    'signals no process outside of the rules',
    async () => {
      expect(runWithLeak('kill -0 1 && echo reached', path('work'), false)).toBe('reached\n')
      expect(await run(createSandboxSetup().order(sh('kill -0 1')))).toMatchObject({
        err: expect.stringContaining('not permitted'),
        end: { code: 1 },
      })
    },
  )

  test('writes, links, moves and executes where it may', async () => {
    const { root, sandboxUser, order } = createSandboxSetup()
    const shared = join(root, 'shared')
    mkdirSync(shared)
    if (isRoot) chownSync(shared, sandboxUser.uid, sandboxUser.gid)
    const script = `
      set -e
      for folder in /work "$HOME" /tmp /dev/shm /mnt/shared; do
        cd $folder; mkdir -p a/b c; printf '#!/bin/sh\\necho ran' > a/b/file; chmod +x a/b/file
        mv a/b/file c/; mv c a/; ln a/c/file linked; ln -s linked soft; ./soft > /dev/null; mkfifo pipe
        truncate -s 3 linked; : > soft; rm -r a linked soft pipe
      done
      (echo out > /dev/stdout; echo err > /dev/stderr) 2>&1 | cat; echo nothing > /dev/null; cat /proc/self/status > /dev/null
      sleep 5 & kill $!; exec 3<>/dev/ptmx; ls / /usr /proc > /dev/null`
    const mounts = [
      { from: shared, to: '/mnt/shared', writable: true },
      { from: '/usr/lib', to: '/mnt/read-only' },
    ]
    expect(await run(order(sh(script), { mounts }))).toMatchObject({
      out: 'out\nerr\n',
      end: { code: 0 },
    })
    expect(await run(order(sh('touch /mnt/read-only/file'), { mounts }))).toMatchObject({ end: { code: 1 } })
  })
})

describe('the command line', () => {
  test('names the folders that may be written, and no others', () => {
    const mounts = [
      { from: '/a', to: '/written', writable: true },
      { from: '/b', to: '/read' },
    ]
    const words = landlockedCommand(['/bin/true', '--', 'x'], mounts)
    expect(words.slice(3)).toEqual([
      '/work',
      '/home/agent',
      '/tmp',
      '/dev',
      '/written',
      '--',
      '/bin/true',
      '--',
      'x',
    ])
  })

  test('ends without its command when a folder is missing', () => {
    const [program = '', ...args] = landlockedCommand(
      ['/bin/echo', 'ran'],
      [{ from: '/', to: '/no/such/folder', writable: true }],
    )
    const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
    expect({ status, stdout, stderr }).toEqual({
      status: 125,
      stdout: '',
      stderr: expect.stringMatching(/^Landlock: /),
    })
  })
})
