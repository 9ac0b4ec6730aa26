/**
 * Processes give nothing away: no memory in a core dump, and no path of this machine inside a sandbox. A real host with
 * its own worker, real git and a real sandbox; the test allows core dumps of any size before it starts them.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { keepForFile, runCommand, sandboxFolder } from '../support/command-process.ts'
import { LocalSystem } from '../support/local-system.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 120_000
const RUN_MS_MAX = 60_000
const readProcess = (pid: number | string, name: string): string =>
  readFileSync(`/proc/${pid}/${name}`, 'utf8')

const hardLimit = (): string =>
  /^Max core file size +\S+ +(\S+)/m.exec(readProcess('self', 'limits'))?.[1] ?? '0'
const setLimit = (soft: string, hard: string) => {
  const limit = `--core=${soft}:${hard}`
  execFileSync('/usr/bin/prlimit', [limit, '--pid', String(process.pid)])
}

let system: LocalSystem

beforeAll(async () => {
  setLimit(hardLimit(), hardLimit())
  system = await LocalSystem.open({ local: true })
  keepForFile(system.host)
  await system.waitForOnlineWorkers(1)
}, TEST_MS_MAX)

afterAll(() => setLimit('0', hardLimit()))

const workerPid = (): number =>
  Number(/"workerPid":(\d+),"msg":"the local worker was started"/.exec(system.host.err())?.[1])

/** Returns what commands of an agent have printed, both streams together. */
async function readReport(identifier: string, commands: readonly string[]): Promise<string> {
  const lines = commands.map((command) => `run (${command}) >> $SWITCHYARD_ARTIFACTS/report.txt 2>&1 || true`)
  system.writeTicket(identifier, lines)
  const run = await system.waitForEnd(identifier, RUN_MS_MAX)
  const { url, token } = await system.host.waitForLaunch()
  const headers = { authorization: `Bearer ${token}` }
  const response = await fetch(`${url}/api/runs/${run.id}/artifacts/report.txt`, { headers })
  expect(response.status).toBe(200)
  return response.text()
}

/** No dump is written to a file, and a program that receives dumps gets one without memory. */
const NO_DUMP = /^Max core file size +0 +0 /m
const NO_MEMORY = /^0{8}$/m

const hasNoDumps = (pid: number): boolean =>
  NO_DUMP.test(readProcess(pid, 'limits')) && NO_MEMORY.test(readProcess(pid, 'coredump_filter'))

test('no crash of host, worker or supervisor leaves their memory on disk', async () => {
  const supervisor = runCommand([
    'supervise',
    '--dry-run',
    '--host',
    'http://127.0.0.1:9',
    '--data-dir',
    system.folder,
  ])
  const pids = [system.host.process.pid ?? 0, workerPid(), supervisor.process.pid ?? 0]
  for (const pid of pids) await until(`${pid} forbids core dumps`, () => hasNoDumps(pid))
  supervisor.process.kill('SIGKILL')
  await supervisor.exit
})

test(
  'no crash in a sandbox leaves a dump, and the sandbox can change neither setting',
  async () => {
    const files = '/proc/self/limits /proc/self/coredump_filter'
    const text = await readReport('ENG-1', [
      `cat ${files}`,
      `(ulimit -c unlimited; echo 51 > /proc/self/coredump_filter) 2>&1; cat ${files}`,
      'cd /tmp && sh -c "kill -SEGV \\$\\$"; ls -a /tmp /work',
    ])
    expect(text.match(new RegExp(NO_DUMP, 'gm'))).toHaveLength(2)
    expect(text.match(new RegExp(NO_MEMORY, 'gm'))).toHaveLength(2)
    expect(text).toContain('README.md')
    expect(text).not.toMatch(/^core/m)
  },
  TEST_MS_MAX,
)

test(
  'an agent sees no path of the machine, except in the list of its mounts',
  async () => {
    const listed = await readReport('ENG-2', [
      'env; pwd; git -C /work remote -v; cat /proc/self/cmdline /proc/1/cmdline /proc/self/maps | tr "\\0" " "',
      'readlink /proc/self/cwd /proc/self/root /proc/self/exe /proc/1/exe; cat /proc/self/mounts',
      `grep -rIl -e ${system.folder} -e ${sandboxFolder()} -e ${homedir()}/ / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr`,
      'ls -d /home/agent/.claude/projects/*',
    ])
    expect(listed).toContain('/repository.git')
    expect(listed).toContain('/home/agent/.claude/projects/-work')
    for (const path of [system.folder, sandboxFolder(), `${homedir()}/`, process.cwd()])
      expect(listed.replaceAll(/^(grep: .*|.*report\.txt.*)$/gm, '')).not.toContain(path)
    const mounts = await readReport('ENG-3', ['cut -d" " -f4,5 /proc/self/mountinfo'])
    const shown = mounts.split('\n').filter((line) => /\/sandboxes\/|\/dist\/inside /.test(line))
    expect(shown.map((line) => line.split(' ')[1])).toEqual([
      '/home/agent',
      '/work',
      '/out',
      '/opt/switchyard',
      '/run/model-api.sock',
    ])
  },
  TEST_MS_MAX,
)
