/** Provisioning over SSH with the real command: a real OpenSSH server, real workers, real sandboxes in the target. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import type { FleetResponse } from '../../protocol/worker.ts'
import { runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem, openSandboxGate } from '../support/local-system.ts'
import { describeIf, isRoot } from '../support/skips.ts'
import { ORDINARY_UID, SshTarget, type SshTargetOptions } from '../support/ssh-target.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 90_000
const SECRET = /w[pc]-[\w-]{43}/

type User = 'root' | 'ann'
const BASE: Readonly<Record<User, string>> = {
  root: 'var/lib/switchyard-worker',
  ann: 'home/ann/.local/lib/switchyard-worker',
}

/** A host, and a target whose worker may use the host's local repositories. */
async function openPlace(user: User, options: SshTargetOptions = {}) {
  const system = await LocalSystem.open({ local: false, fleet: { host: '0.0.0.0', insecure: true } })
  for (const path of [system.folder, system.code]) chmodSync(path, 0o755)
  const target = await SshTarget.start({ shared: [system.code], ...options })
  const folder = target.path(`${user === 'root' ? 'etc' : 'home/ann/.config'}/switchyard-worker`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'options'), `# of the operator\n--local-repos=${system.code}\n`)
  if (user === 'ann')
    for (const path of [system.code, target.path('home/ann')])
      execFileSync('chown', ['-R', `${ORDINARY_UID}:${ORDINARY_UID}`, path])
  const provision = async (...more: readonly string[]) => {
    const ran = runCommand(
      [
        ...['workers', 'provision', `${user}@127.0.0.1`, '--port', String(target.port), '--name', 'forge'],
        ...['--identity-file', target.identityFile, '--host-key-sha256', target.hostKeySha256],
        ...['--data-dir', system.dataDir, ...more],
      ],
      system.dataDir,
    )
    return { code: await ran.exit, out: ran.out(), err: ran.err() }
  }
  return { system, target, provision, base: target.path(BASE[user]) }
}

const workersOf = async ({ host }: LocalSystem) =>
  ((await host.request('/api/workers')).body as FleetResponse).workers

function gateOf(base: string, run: Run): string {
  return join(base, 'data', 'sandboxes', run.id)
}

/** The worker has an earlier version from now on, and has started with it. */
const BECOME_OLDER = `set -e
cd /var/lib/switchyard-worker
kill -TERM $(cat run.pid)
while [ -e run.pid ]; do sleep 0.1; done
mv switchyard-worker-0.1.0 switchyard-worker-0.0.9
ln -sfn switchyard-worker-0.0.9 current
echo '0.0.9 an earlier one' >installed
setsid /var/lib/switchyard-worker/run </dev/null >>log 2>&1 &
sleep 0.5`

/** Everything that a process of this machine shows to others. */
function shownByProcesses(): string {
  const read = (path: string) => {
    try {
      return readFileSync(path, 'latin1')
    } catch {
      return ''
    }
  }
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map((pid) => read(`/proc/${pid}/cmdline`) + read(`/proc/${pid}/environ`)).join('\n')
}

describeIf(isRoot, 'needs root')('provisioning', () => {
  test(
    'from nothing to an online worker that completes a run, as an ordinary user with a systemd user unit',
    async () => {
      const { system, target, provision, base } = await openPlace('ann', { systemd: true })
      const ran = await provision('--concurrency', '3')
      expect(ran).toMatchObject({ code: 0, out: 'forge is online with 3 slots.\n' })
      expect(ran.err).toMatch(
        /^1\/6 connect {2}ok .*\n2\/6 check {4}ok .*\n3\/6 copy .*\n4\/6 install .*systemd user unit.*\n5\/6 pair .*\n6\/6 online .*\n$/,
      )
      expect(await workersOf(system)).toMatchObject([
        { name: 'forge', connection: 'online', capabilities: { maxConcurrency: 3 } },
      ])
      expect(target.read('tmp/calls')).toContain('systemctl --user enable switchyard-worker.service\n')
      expect(target.read('tmp/calls')).toContain('loginctl enable-linger\n')
      expect(target.has('home/ann/.config/systemd/user/switchyard-worker.service')).toBe(true)
      expect(readdirSync(base)).not.toContain('token')
      system.writeTicket('ONE', ['write note.txt hello'])
      expect((await system.waitForEnd('ONE')).status).toBe('completed')
    },
    TEST_MS_MAX,
  )

  test(
    'a machine without Node.js gets the one of the host, as root with a systemd unit',
    async () => {
      const { system, target, provision } = await openPlace('root', {
        systemd: true,
        programs: { '/usr/bin/node': '' },
      })
      const ran = await provision()
      expect(ran.code === 0 ? '' : ran.err).toBe('')
      expect(ran.err).toContain(`and Node.js ${process.version}\n`)
      expect(target.has('etc/systemd/system/switchyard-worker.service')).toBe(true)
      system.writeTicket('ONE', ['write note.txt hello'])
      expect((await system.waitForEnd('ONE')).status).toBe('completed')
    },
    TEST_MS_MAX,
  )

  test(
    'as root without systemd; another provisioning waits for the run in flight, and loses nothing',
    async () => {
      const { system, target, provision, base } = await openPlace('root')
      let shown = ''
      const scan = setInterval(() => {
        shown += SECRET.exec(shownByProcesses())?.[0] ?? ''
      }, 20)
      const first = await provision()
      clearInterval(scan)
      expect(first).toMatchObject({ code: 0 })
      expect(first.err).toMatch(/install .*supervised process/)
      expect([
        shown,
        SECRET.test(first.err + first.out + system.host.err() + target.read(`${BASE.root}/log`)),
      ]).toEqual(['', false])

      const same = await provision()
      expect(same.err).toMatch(
        /3\/6 copy .*is there already\n4\/6 drain .*its runs go on\n5\/6 install .*unchanged\n/,
      )
      const [before] = await workersOf(system)

      target.run('root', BECOME_OLDER)
      await system.waitForOnlineWorkers(1)
      system.writeTicket('TWO', [`run ${GATE}`, 'write note.txt hello'])
      const run = await system.waitForStatus('TWO', 'running')
      await system.waitForGate(run)
      const upgrade = provision('--concurrency', '5')
      await until('the worker drains', async () => (await workersOf(system))[0]?.state === 'draining')
      openSandboxGate(gateOf(base, run))
      expect(await upgrade).toMatchObject({ code: 0, out: 'forge is online with 5 slots.\n' })
      const ended = await system.waitForEnd('TWO')
      expect([ended.status, ended.costs.length]).toEqual(['completed', 1])
      expect(await workersOf(system)).toMatchObject([
        { id: before?.id, state: 'active', connection: 'online', capabilities: { maxConcurrency: 5 } },
      ])
      expect(readdirSync(base).filter((name) => name.startsWith('switchyard-worker-'))).toEqual([
        'switchyard-worker-0.1.0',
      ])
      system.writeTicket('THREE', ['write other.txt hello'])
      expect((await system.waitForEnd('THREE')).status).toBe('completed')
    },
    TEST_MS_MAX,
  )
})
