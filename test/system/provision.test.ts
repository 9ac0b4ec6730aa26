/** Provisioning over SSH with the real command: a real OpenSSH server, real workers, real sandboxes in the target. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { runCommand } from '../support/command-process.ts'
import { LocalSystem } from '../support/local-system.ts'
import { describeIf, isRoot } from '../support/skips.ts'
import { ORDINARY_UID, SshTarget } from '../support/ssh-target.ts'

const provision = async (
  system: LocalSystem,
  target: SshTarget,
  user: string,
  more: readonly string[] = [],
) => {
  const ran = runCommand(
    [
      ...['workers', 'provision', `${user}@127.0.0.1`, '--port', String(target.port)],
      ...['--identity-file', target.identityFile, '--host-key-sha256', target.hostKeySha256],
      ...['--data-dir', system.dataDir, '--name', 'forge', ...more],
    ],
    system.dataDir,
  )
  return { code: await ran.exit, out: ran.out(), err: ran.err() }
}

describeIf(isRoot, 'needs root')('provisioning', () => {
  test.each([['root'], ['ann']])(
    'from nothing to an online worker that completes a run, as %s',
    async (user) => {
      const system = await LocalSystem.open({ local: false, fleet: { host: '0.0.0.0' } })
      const target = await SshTarget.start({ shared: [system.folder] })
      const options = user === 'root' ? 'etc' : 'home/ann/.config'
      mkdirSync(target.path(`${options}/switchyard-worker`), { recursive: true })
      writeFileSync(target.path(`${options}/switchyard-worker/options`), `--local-repos=${system.code}\n`)
      if (user === 'ann') execFileSync('chown', ['-R', String(ORDINARY_UID), system.code])
      for (const path of [system.folder, system.code]) chmodSync(path, 0o755)
      const ran = await provision(system, target, user)
      expect(ran.code).toBe(0)
      system.writeTicket('ONE', ['write note.txt hello'])
      const run = await system.waitForEnd('ONE', 30_000)
      expect(run.status).toBe('completed')
    },
    90_000,
  )
})
