/** Runs the programs that agents use in a real sandbox: what its filter and its limits refuse must not be missed by them. */
import { existsSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeAll, describe, expect } from '@jest/globals'
import { createSandboxSetup, run, type SandboxSetup, sh } from '../../../support/sandbox.ts'
import { testIf } from '../../../support/skips.ts'

const TIMEOUT_MS = 120_000
const THREADS = `
#include <pthread.h>
#include <stdio.h>
static int shared;
static void *add(void *lock) { pthread_mutex_lock(lock); shared++; pthread_mutex_unlock(lock); return 0; }
int main(void) {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, add, &lock);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  return shared == 4 ? 0 : 1;
}`
const NODE = `
const { spawnSync } = require('node:child_process')
const { Worker } = require('node:worker_threads')
const { watch, promises, writeFileSync } = require('node:fs')
const { createServer, connect } = require('node:net')
if (spawnSync(process.execPath, ['-e', '0']).status !== 0) throw new Error('spawn')
const seen = new Promise((resolve) => watch('.', resolve))
const server = createServer((socket) => socket.end('x')).listen(0, '127.0.0.1', () => {
  connect(server.address().port).on('data', () => server.close())
})
new Worker('require("node:crypto").scryptSync("a", "b", 32)', { eval: true }).on('exit', async (code) => {
  writeFileSync('seen', await promises.readFile('/etc/passwd'))
  await seen
  process.exit(code)
})`
const PYTHON = `
import asyncio, mmap, multiprocessing, os, select, subprocess, tempfile, threading
async def child(): return await (await asyncio.create_subprocess_exec('true')).wait()
if __name__ == '__main__':
    with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, 2]) == [1, 2]
    assert asyncio.run(child()) == 0 and subprocess.run(['true']).returncode == 0
    thread = threading.Thread(target=os.getpid); thread.start(); thread.join()
    mmap.mmap(-1, 4096).close(); select.epoll().close(); tempfile.TemporaryFile().close()`
const MAKEFILE = 'all: one two\n\none two: threads.c\n\tcc -O1 -pthread threads.c -o $@ && ./$@\n'
const PACKAGE = '{ "name": "one", "version": "1.0.0", "scripts": { "go": "node -e 0" } }'
const CHROMIUM = '/usr/lib/chromium/chromium'

let fixture: SandboxSetup
beforeAll(() => {
  fixture = createSandboxSetup()
  const files = {
    'threads.c': THREADS,
    'tool.js': NODE,
    'tool.py': PYTHON,
    Makefile: MAKEFILE,
    'package.json': PACKAGE,
  }
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(fixture.root, 'work', name), text, { mode: 0o644 })
})

/** Name, program, and a script that runs in a folder of its own beside the planted files. */
const TOOLS: readonly (readonly [name: string, program: string, script: string])[] = [
  [
    'git',
    '/usr/bin/git',
    `git init -q . && git config user.email a@example.com && git config user.name a
     echo x > file && git add file && git commit -qm first && git gc -q && git worktree add -q ../beside
     git clone -q . ../again && git -C ../again status --short && git bundle create -q ../all.bundle --all`,
  ],
  ['node: threads, processes, sockets, watching', process.execPath, '"$NODE" ../tool.js'],
  ['npm', '/usr/bin/npm', 'cp ../package.json . && npm run -s go && npm pack -s && npm install -s --offline'],
  ['python: processes, threads, events', '/usr/bin/python3', 'cp ../tool.py . && /usr/bin/python3 tool.py'],
  ['a C compiler, and make with two jobs', '/usr/bin/make', 'cp ../threads.c ../Makefile . && make -s -j2'],
  [
    'the thread sanitizer',
    '/usr/bin/cc',
    'cc -fsanitize=thread -pthread ../threads.c -o checked && ./checked && setarch -R ./checked',
  ],
  ['perl', '/usr/bin/perl', 'perl -MPOSIX -e "fork; wait; exit 0"'],
  ['ssh keys', '/usr/bin/ssh-keygen', 'ssh-keygen -q -t ed25519 -N "" -f key && ssh -V'],
  [
    'archives and copies',
    '/usr/bin/tar',
    'cp -a .. /tmp/copy && tar czf all.tgz -C /tmp/copy . && tar xzf all.tgz && rm -r /tmp/copy',
  ],
  ['a terminal', '/usr/bin/script', '[ "$(script -qec "stty size >/dev/null && echo it" typed)" != "" ]'],
  [
    'shell jobs',
    '/bin/bash',
    'bash -c "cat <(echo a) > b; sleep 0 & wait; nice -n 5 true; taskset -c 0 true"',
  ],
  [
    'Chromium without a window',
    CHROMIUM,
    `${CHROMIUM} --headless --no-sandbox --disable-gpu --user-data-dir=. --dump-dom data:text/html,hello 2>&1 |
     grep -q "<body>hello"`,
  ],
]

describe('in a sandbox works', () => {
  for (const [at, [name, program, script]] of TOOLS.entries())
    testIf(existsSync(program), `needs ${program}`)(
      name,
      async () => {
        const node = process.execPath
        const { out, err, end } = await run(
          fixture.order(sh(`set -e\nmkdir tool-${at}\ncd tool-${at}\n${script}`), {
            environment: { NODE: node },
            ...(node.startsWith('/usr/') ? {} : { readOnlyPaths: [dirname(node)] }),
          }),
        )
        expect({ out, err, end }).toMatchObject({ end: { code: 0 } })
      },
      TIMEOUT_MS,
    )
})
