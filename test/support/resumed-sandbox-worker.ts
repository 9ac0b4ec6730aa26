/**
 * A process with an executor and a booted sandbox, for tests that kill it or run it as another user.
 *
 * The argument is JSON with the user, the folder and the task: `all` opens a terminal, runs commands and leaves; `stay`
 * prints a line when the agent's prompt appears, and waits until it is killed.
 */
import { spawnSync } from 'node:child_process'
import { bootSandbox, executeJob, openTerminal, openTestExecutor, RUN } from './resumed-sandbox.ts'

interface ResumedSandboxTask {
  readonly uid?: number
  readonly folder: string
  readonly slotsFrom?: number
  readonly does: 'all' | 'stay'
}

const { uid, folder, slotsFrom, does }: ResumedSandboxTask = JSON.parse(process.argv[2] ?? '{}')

if (uid !== undefined && process.geteuid?.() !== uid) {
  const { status } = spawnSync(process.execPath, process.argv.slice(1), {
    uid,
    gid: uid,
    stdio: 'inherit',
    env: { PATH: '/usr/bin:/bin' },
  })
  process.exitCode = status ?? 1
} else {
  const executor = await openTestExecutor(folder, {}, slotsFrom)
  await executeJob(executor)
  const person = openTerminal(await bootSandbox(executor))
  await person.waitForText('/exit leaves')
  await person.waitForText('> ')
  if (does === 'stay') {
    console.log('staying')
    // Keeps the process alive until it is killed.
    setInterval(() => {}, 60_000)
  } else {
    person.session.input('run cat kept.txt\r')
    await person.waitForText('kept\r')
    person.session.input('exit 3\r')
    const code = await person.ended
    const usage = await person.booted.close()
    await executor.discard(RUN)
    await executor.close()
    console.log(JSON.stringify({ code, entries: usage.flatMap(({ entries }) => entries).length }))
  }
}
