/** Tests of the launcher with the real bubblewrap: input, output, ends, and refused orders. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import { makeLauncher } from '../../../../worker/sandbox/bwrap/launch.ts'
import type { SandboxEnd } from '../../../../worker/sandbox/driver.ts'
import {
  createSandboxSetup,
  folder,
  launch,
  ORDINARY_UID,
  processesOf,
  run,
  runAs,
  sh,
  sharedLauncher,
} from '../../../support/sandbox.ts'
import { testAsRoot, testIf } from '../../../support/skips.ts'
import { until } from '../../../support/until.ts'

describe('a command', () => {
  const fixture = createSandboxSetup()

  test('ends with its exit code and all its output', async () => {
    expect(await run(fixture.order(sh('echo out; echo err >&2; exit 7')))).toEqual({
      end: { code: 7 },
      out: 'out\n',
      err: 'err\n',
    })
  })

  test.each([
    ['kill -KILL $$', { signal: 'SIGKILL' }],
    ['kill -TERM $$', { signal: 'SIGTERM' }],
    ['kill -SEGV $$', { signal: 'SIGSEGV' }],
    ['exit 129', { code: 129 }],
    ['exit 125', { code: 125 }],
  ])('%s: %j', async (script, end) => {
    expect((await run(fixture.order(sh(script)))).end).toEqual(end)
  })

  test('that does not exist ends with 127, as in a shell', async () => {
    expect(await run(fixture.order(['no-such-program']))).toMatchObject({ end: { code: 127 }, out: '' })
  })

  test('reads its input to the last byte, and then the end', async () => {
    const text = `go\n\n  leading blanks\\n\ttab ✓ \0 ${'x'.repeat(1_000_000)}`
    const ran = await run(fixture.order(['cat'], { stdin: text }))
    expect(ran.out === text).toBe(true)
    expect(await run(fixture.order(['cat'], { stdin: '' }))).toMatchObject({ end: { code: 0 }, out: '' })
  })

  test('reads later input too when its input is kept open', async () => {
    const sandbox = launch(fixture.order(sh('read -r one; echo "got $one"; cat'), { openInput: true }))
    sandbox.input?.write('early\n')
    let out = ''
    sandbox.stdout.on('data', (chunk) => {
      out += chunk
    })
    await until('the first line is read', () => out === 'got early\n')
    sandbox.input?.write('later')
    await until('the rest is read', () => out.endsWith('later'))
    sandbox.input?.end(', and last')
    expect((await sandbox.result).end).toEqual({ code: 0 })
    expect(out).toBe('got early\nlater, and last')
    sandbox.input?.write('too late')
  })

  test('without input reads an empty input', async () => {
    const ran = await run(fixture.order(sh('cat; readlink /proc/self/fd/0')))
    expect(ran.out).toBe('/dev/null\n')
  })

  test('runs as an ordinary user in its own root, and learns nothing about the host', async () => {
    const commands =
      'id -un; id -G; pwd; hostname; env | sort; tr -d "\\0" < /proc/1/environ | wc -c; ls -a ~'
    const ran = await run(fixture.order(sh(commands), { environment: { EXTRA: 'yes' } }))
    expect(ran.out.split('\n').filter(Boolean)).toEqual([
      'agent',
      '1000',
      '/work',
      'sandbox',
      'EXTRA=yes',
      'HOME=/home/agent',
      'LANG=C.UTF-8',
      'PATH=/usr/local/bin:/usr/bin:/bin',
      'PWD=/work',
      'TERM=xterm-256color',
      'TMPDIR=/tmp',
      'USER=agent',
      '0',
      '.',
      '..',
    ])
  })

  test('has its resource limits', async () => {
    const ran = await run(
      fixture.order(['cat', '/proc/self/limits', '/proc/self/oom_score_adj'], { maxProcesses: 99 }),
    )
    expect(ran.out).toMatch(/^Max core file size +0 +0 /m)
    expect(ran.out).toMatch(/^Max open files +8192 +8192 /m)
    expect(ran.out).toMatch(/^Max file size +4294967296 +4294967296 /m)
    expect(ran.out).toMatch(/^Max address space +unlimited +unlimited /m)
    expect(ran.out).toMatch(/\n500\n$/)
    if (sharedLauncher().limitsEnforcedBy() === 'rlimit')
      expect(ran.out).toMatch(/^Max processes +100 +100 /m)
  })

  test('has no higher limits than its worker', async () => {
    const fixture = createSandboxSetup(ORDINARY_UID)
    const [ran] = await runAs(ORDINARY_UID, [fixture.order(['cat', '/proc/self/limits'])], { openFiles: 500 })
    expect(ran).toMatchObject({ end: { code: 0 } })
    expect(ran?.out).toMatch(/^Max open files +500 +500 /m)
  })

  test('leaves files only in its own folders, owned by its own user', async () => {
    await run(fixture.order(sh('echo w > /work/left; echo h > ~/left; echo t > /tmp/left')))
    expect(readFileSync(join(fixture.root, 'work', 'left'), 'utf8')).toBe('w\n')
    expect(readFileSync(join(fixture.root, 'home', 'left'), 'utf8')).toBe('h\n')
    expect(await run(fixture.order(sh('cat /work/left ~/left; ls /tmp')))).toMatchObject({ out: 'w\nh\n' })
  })

  test('may write only to mounts marked writable', async () => {
    for (const name of ['in', 'out']) folder(join(fixture.root, name), fixture.sandboxUser)
    const mounts = [
      { from: join(fixture.root, 'in'), to: '/in' },
      { from: join(fixture.root, 'out'), to: '/deep/er/out', writable: true },
    ]
    const ran = await run(fixture.order(sh('echo x > /deep/er/out/x; echo x > /in/x; ls /in'), { mounts }))
    expect(ran).toMatchObject({
      end: { code: 0 },
      out: '',
      err: expect.stringContaining('Read-only file system'),
    })
    expect(readdirSync(join(fixture.root, 'out'))).toEqual(['x'])
  })

  test('runs beside other sandboxes without seeing them', async () => {
    const commands = 'readlink /proc/self/ns/pid /proc/self/ns/net /proc/self/ns/user'
    const others = await Promise.all(
      Array.from({ length: 6 }, () => run(createSandboxSetup().order(sh(commands)))),
    )
    expect(new Set(others.flatMap(({ out }) => out.split('\n').filter(Boolean))).size).toBe(18)
  })
})

describe('a command may not see', () => {
  /** Only this process counts: other tests may expose their own descriptors. */
  const secret = `planted-secret-of-${process.pid}-${Date.now()}`
  const files = [{ path: '/run/cred/token', mode: '0400', text: secret }] as const

  test('any but the three standard descriptors, whatever this process has open', async () => {
    const fixture = createSandboxSetup(ORDINARY_UID)
    const task = { uid: ORDINARY_UID, orders: [fixture.order(sh('ls /proc/self/fd /proc/$$/fd'))] }
    const [ran] = await runAs(ORDINARY_UID, task.orders, { leaking: [7, 20] })
    expect(ran?.out.replace(/\s+/g, ' ')).toBe('/proc/2/fd: 0 1 2 /proc/self/fd: 0 1 2 3 ')
  })

  test('arguments, environment or files in /proc', async () => {
    const fixture = createSandboxSetup()
    const script = 'cat /run/cred/token; stat -c %a /run/cred/token; touch /work/up; sleep 300'
    const sandbox = launch(fixture.order(sh(script), { files }))
    await until('the command runs', () => existsSync(join(fixture.root, 'work', 'up')))
    const seen = readAllOfProc()
    expect(seen).toContain('--args')
    expect(seen).not.toContain(secret)
    expect(seen).not.toContain(fixture.root)
    sandbox.kill()
    expect((await sandbox.result).out).toBe(`${secret}400\n`)
  })

  testAsRoot('a credential can’t be read by another user, nor by anybody after the end', async () => {
    const fixture = createSandboxSetup()
    const sandbox = launch(fixture.order(sh('echo up; sleep 300'), { files }))
    await until('the command runs', () => processesOf(fixture.sandboxUser.uid).length >= 4)
    const insiders = processesOf(fixture.sandboxUser.uid).map((pid) => `/proc/${pid}/root/run/cred/token`)
    const reader = (uid: number) => ['--reuid', String(uid), '--clear-groups', 'cat', ...insiders]
    expect(attempt('setpriv', reader(ORDINARY_UID))).toBe('')
    expect(attempt('setpriv', reader(fixture.sandboxUser.uid + 1))).toBe('')
    // Another sandbox of the same worker and user cannot read it either: /run is owner-only, and /proc is separate.
    const second = await run(fixture.order(sh('cat /run/cred/token /proc/*/root/run/cred/token')))
    expect(second.out).toBe('')
    sandbox.kill()
    await sandbox.ended
    expect(insiders.map((path) => attempt('cat', [path])).join('')).toBe('')
    expect(attempt('grep', ['-rl', secret, fixture.root])).toBe('')
  })
})

describe('the end', () => {
  const daemon = '(setsid sleep 300 >/dev/null 2>&1 &) ; (setsid sh -c "trap : TERM INT HUP; sleep 300" &);'

  test('does not wait for daemons', async () => {
    const fixture = createSandboxSetup()
    const left = { end: { code: 0 }, out: 'left\n' }
    expect(await run(fixture.order(sh(`${daemon} echo left`)))).toMatchObject(left)
  })

  testAsRoot('leaves no process of a daemon', async () => {
    const fixture = createSandboxSetup()
    await run(fixture.order(sh(`${daemon} echo left`)))
    expect(processesOf(fixture.sandboxUser.uid)).toEqual([])
  })

  test('by interrupt lets the command still print its output', async () => {
    const sandbox = launch(
      createSandboxSetup().order(sh('trap "echo spent; exit 3" INT; echo up; while :; do sleep 0.05; done')),
    )
    await firstOutput(sandbox.stdout)
    sandbox.interrupt()
    expect(await sandbox.result).toMatchObject({ end: { code: 3 }, out: 'up\nspent\n' })
  })

  test('by kill ends everything, also processes that ignore signals', async () => {
    const fixture = createSandboxSetup()
    const sandbox = launch(
      fixture.order(sh(`trap : TERM INT HUP; ${daemon} echo up; while :; do sleep 0.05; done`)),
    )
    await firstOutput(sandbox.stdout)
    sandbox.kill()
    expect((await sandbox.result).end).toEqual({ signal: 'SIGKILL' })
    sandbox.kill()
    sandbox.interrupt()
  })

  testAsRoot('by kill leaves no process, also none that ignores signals', async () => {
    const fixture = createSandboxSetup()
    const sandbox = launch(
      fixture.order(sh(`trap : TERM INT HUP; ${daemon} echo up; while :; do sleep 0.05; done`)),
    )
    await firstOutput(sandbox.stdout)
    expect(processesOf(fixture.sandboxUser.uid)).not.toEqual([])
    sandbox.kill()
    await sandbox.ended
    expect(processesOf(fixture.sandboxUser.uid)).toEqual([])
  })

  /** Kills a sandbox at many moments of its start, and calls `check` after each end. */
  async function killWhileStarting(check: (afterMs: number, end: SandboxEnd, uid: number) => void) {
    const fixture = createSandboxSetup()
    for (let afterMs = 0; afterMs < 24; afterMs += 1.5) {
      const sandbox = launch(fixture.order(sh('echo ran; sleep 300')))
      await new Promise((resolve) => setTimeout(resolve, afterMs))
      sandbox.kill()
      check(afterMs, (await sandbox.result).end, fixture.sandboxUser.uid)
    }
  }

  test('by kill works at any moment of the start', async () => {
    await killWhileStarting((afterMs, end) => {
      expect([afterMs, end]).toEqual([afterMs, { signal: 'SIGKILL' }])
    })
  })

  testAsRoot('by kill at any moment of the start leaves no process', async () => {
    await killWhileStarting((afterMs, _, uid) => {
      expect([afterMs, processesOf(uid)]).toEqual([afterMs, []])
    })
  })

  test('is reported after a kill even when nobody reads the streams', async () => {
    const sandbox = sharedLauncher().launch(createSandboxSetup().order(['yes']))
    await firstOutput(sandbox.stdout)
    sandbox.stdout.pause()
    sandbox.kill()
    expect(await sandbox.ended).toEqual({ signal: 'SIGKILL' })
  })
})

describe('limits', () => {
  async function startBomb() {
    const bombed = createSandboxSetup()
    const script = 'b() { b | b & }; echo up; b 2>/dev/null; sleep 300'
    const bomb = launch(bombed.order(sh(script), { maxProcesses: 64 }))
    await firstOutput(bomb.stdout)
    return { bomb, uid: bombed.sandboxUser.uid }
  }

  test('stop a fork bomb, and other sandboxes still start', async () => {
    const second = createSandboxSetup()
    const { bomb } = await startBomb()
    for (let each = 0; each < 3; each++) expect((await run(second.order(['true']))).end).toEqual({ code: 0 })
    bomb.kill()
    await bomb.ended
  })

  testAsRoot('bound the processes of a fork bomb, and its end leaves none', async () => {
    const second = createSandboxSetup()
    const { bomb, uid } = await startBomb()
    for (let each = 0; each < 3; each++) await run(second.order(['true']))
    expect(processesOf(uid).length).toBeLessThan(80)
    bomb.kill()
    await bomb.ended
    expect(processesOf(uid)).toEqual([])
  })

  const counted = testIf(
    sharedLauncher().limitsEnforcedBy() === 'cgroup',
    'needs a control group with a memory controller',
  )
  counted('end a memory bomb completely', async () => {
    const bomb = createSandboxSetup().order(sh('tail /dev/zero'), { memoryMib: 64 })
    expect((await run(bomb)).end).toEqual({ signal: 'SIGKILL' })
  })
})

describe('no sandbox is created', () => {
  const fixture = createSandboxSetup()
  const failureOf = async (more: object): Promise<string> =>
    (await run({ ...fixture.order(['true']), ...more })).end.startFailure ?? ''

  test('for a workspace that is a link, or lies behind one', async () => {
    symlinkSync(join(fixture.root, 'work'), join(fixture.root, 'link'))
    symlinkSync(fixture.root, join(fixture.root, 'around'))
    expect(await failureOf({ workFolder: join(fixture.root, 'link') })).toMatch(
      /cannot be mounted: E(LOOP|NOTDIR)/,
    )
    expect(await failureOf({ workFolder: join(fixture.root, 'around', 'work') })).toContain('through a link')
    expect(await failureOf({ workFolder: join(fixture.root, '.', '..', 'none') })).toContain('ENOENT')
  })

  test('for folders that belong to another user, or that others may replace', async () => {
    mkdirSync(join(fixture.root, 'open'), { mode: 0o700 })
    chmodSync(join(fixture.root, 'open'), 0o777)
    folder(join(fixture.root, 'open', 'work'), fixture.sandboxUser)
    expect(await failureOf({ homeFolder: join(fixture.root, 'open', 'work') })).toContain(
      'is writable by others',
    )
    expect(await failureOf({ workFolder: '/usr' })).toContain('does not belong to the user of its sandbox')
    expect(await failureOf({ mounts: [{ from: '/etc', to: '/in', writable: true }] })).toContain(
      'does not belong',
    )
  })

  testAsRoot('for folders that the sandbox’s own user could rename', async () => {
    const inside = join(fixture.root, 'work', 'inner')
    mkdirSync(inside)
    chownSync(inside, fixture.sandboxUser.uid, fixture.sandboxUser.gid)
    expect(await failureOf({ workFolder: inside })).toContain('is writable by others')
  })

  testAsRoot('for folders that its user cannot reach, and the message has a fix', async () => {
    const closed = join(fixture.root, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    folder(join(closed, 'work'), fixture.sandboxUser)
    expect(await failureOf({ workFolder: join(closed, 'work') })).toMatch(
      /Permission denied; the user .* namei -l /,
    )
  })

  test.each([
    [{ readOnlyPaths: ['/'] }, 'would expose /work'],
    [{ readOnlyPaths: ['/proc'] }, 'would expose /proc'],
    [{ readOnlyPaths: ['/home'] }, 'would expose /home/agent'],
    [{ readOnlyPaths: ['relative'] }, 'not a normalized absolute path'],
    [{ readOnlyPaths: ['/opt/../etc'] }, 'not a normalized absolute path'],
    [{ mounts: [{ from: '/usr', to: '/run' }] }, 'is not a valid mount point'],
    [{ egressSocket: '/etc/passwd' }, 'is not a socket'],
    [{ name: '../up' }, '"../up" is not a valid'],
    [{ command: [] }, 'no command'],
    [{ command: ['a\0b'] }, 'could not be started'],
    [{ user: { number: 0, uid: 0, gid: 0 } }, 'never runs as root'],
    [{ readOnlyPaths: ['/no/such/agent'] }, "Can't find source path /no/such/agent"],
  ])('%j: %s', async (more, reason) => {
    expect(await failureOf(more)).toContain(reason)
  })

  test('that would expose the workspace under its host path', async () => {
    expect(await failureOf({ readOnlyPaths: [fixture.root] })).toContain(
      `would expose ${join(fixture.root, 'work')}`,
    )
  })

  test('when bubblewrap is missing', async () => {
    const gone = makeLauncher({ bwrap: '/no/such/bwrap', clock: realClock }).launch(fixture.order(['true']))
    gone.stdout.resume()
    gone.stderr.resume()
    expect((await gone.ended).startFailure).toContain('/no/such/bwrap')
  })
})

test("a launcher that keeps the host name gives sandboxes this machine's", async () => {
  const fixture = createSandboxSetup()
  const keeping = makeLauncher({ bwrap: '/usr/bin/bwrap', clock: realClock, keepsHostName: true })
  const sandbox = keeping.launch(fixture.order(['uname', '-n']))
  sandbox.stderr.resume()
  expect((await text(sandbox.stdout)).trim()).toBe(hostname())
  expect(await sandbox.ended).toEqual({ code: 0 })
})

describe('ordinary work', () => {
  const fixture = createSandboxSetup()
  const works = async (script: string): Promise<string> => {
    const { end, out, err } = await run(fixture.order(sh(`set -e\n${script}`), { maxProcesses: 512 }))
    return end.code === 0 ? out : `${JSON.stringify(end)} ${out} ${err}`
  }

  test('git creates, clones and commits', async () => {
    const git = 'git -c user.name=a -c user.email=a@b -c init.defaultBranch=main'
    const script = `${git} init -q a; cd a; echo 1 > f; ${git} add f; ${git} commit -qm one; cd ..
      ${git} clone -q a b; cd b; echo 2 > f; ${git} commit -qam two; ${git} bundle create -q ../x.bundle main
      ${git} log --format=%s; ${git} gc -q; ${git} fsck`
    expect(await works(script)).toBe('two\none\n')
  })

  test('node can use threads, files, crypto, WebAssembly and child processes', async () => {
    const script = `
      const { Worker } = require('node:worker_threads'), { execFileSync } = require('node:child_process')
      const wasm = new WebAssembly.Memory({ initial: 1, maximum: 65536 })
      const w = new Worker('require("node:worker_threads").parentPort.postMessage(6*7)', { eval: true })
      w.on('message', (n) => console.log(n, wasm.buffer.byteLength, execFileSync('echo', ['child']).toString().trim()))
      require('node:crypto').scrypt('a', 'b', 16, () => require('node:fs').writeFileSync('/work/n', 'x'))
      require('node:http').createServer((q, s) => s.end('served')).listen(0, '127.0.0.1', function () {
        require('node:http').get(this.address(), (r) => r.on('data', (d) => { console.log(String(d)); this.close() }))
      })`
    writeFileSync(join(fixture.root, 'work', 'n.js'), script)
    chmodSync(join(fixture.root, 'work', 'n.js'), 0o644)
    const output = await works('node /work/n.js')
    expect(output.split('\n').filter(Boolean).sort()).toEqual(['42 65536 child', 'served'])
  })

  test('npm, python, tar, compilers and pipes work', async () => {
    const script = `
      npm --version | grep -c .
      if command -v python3 >/dev/null; then
        python3 -c 'import threading,subprocess,socket,multiprocessing as m
t=threading.Thread(target=lambda: print("thread"),); t.start(); t.join()
print(subprocess.check_output(["echo","sub"]).decode().strip(), m.Queue() is not None)'
      else echo thread; echo sub True; fi
      mkdir -p t/d; echo x > t/d/f; tar czf t.tgz t; rm -r t; tar xzf t.tgz; cat t/d/f
      mkfifo p; (echo through > p &); cat p; ln -s nowhere l; ln t/d/f hard; stat -c %h hard`
    expect(await works(script)).toBe('1\nthread\nsub True\nx\nthrough\n2\n')
  })

  test('a pseudo-terminal can be opened', async () => {
    expect(await works('script -qec "tty; stty size" /dev/null </dev/null')).toMatch(/^\/dev\/pts\/\d+/)
  })
})

function firstOutput(stream: NodeJS.ReadableStream): Promise<void> {
  return new Promise((resolve) => stream.once('data', () => resolve()))
}

/** Reads all command lines in /proc, and all environments that are readable. */
function readAllOfProc(): string {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
    .flatMap((pid) => ['cmdline', 'environ'].map((file) => readOrEmpty(`/proc/${pid}/${file}`)))
    .join('\n')
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function attempt(program: string, args: readonly string[]): string {
  try {
    return execFileSync(program, args, { stdio: ['ignore', 'pipe', 'ignore'] }).toString()
  } catch (error) {
    return String((error as { stdout?: Buffer }).stdout ?? '')
  }
}
