/** Work that is small where it lies and huge where it is read: real git, and the memory that it really takes. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import type { Result } from '../../../../core/result.ts'
import { stepMemoryMib } from '../../../../worker/git/work/work-bounds.ts'
import { aJob, createGitFixture, type GitFixture, git, never, refusalOf } from './git-fixture.ts'

const MIB = 1024 ** 2
const BRANCH = 'switchyard/eng-12'

/** Checks out, lets the agent work, and publishes as an execution does. */
async function published(g: GitFixture, script: string): Promise<Result<unknown>> {
  const job = aJob()
  const { folders, sandbox, sh } = g.run()
  const from = await g.sources.checkOut(job, folders, sandbox, never)
  if (!from.ok) return from
  await sh(`cd /work; ${script}`)
  const collected = await g.sources.collect(job, folders, sandbox, from.value)
  if (!collected.ok) return collected
  const request = {
    job,
    leaseId: 'l1',
    folders,
    from: from.value,
    collected: collected.value,
    summary: 'Done.',
  }
  return g.sources.publish(request, g.codehost, () => true, never)
}

const branchesOf = (g: GitFixture): string => git(g.remote, 'for-each-ref', '--format=%(refname)')

// ---- memory --------------------------------------------------------------------------------------------------------

interface ProcessFacts {
  readonly pid: string
  readonly parent: string
  readonly bytes: number
}

function readProcess(pid: string): ProcessFacts[] {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const kib = /^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? '0'
    return [{ pid, parent: /^PPid:\s+(\d+)/m.exec(status)?.[1] ?? '', bytes: Number(kib) * 1024 }]
  } catch {
    return []
  }
}

/** The memory of all processes below this one that work in the run repository. */
function memoryOutside(): number {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap(readProcess)
  const below = new Set([String(process.pid)])
  for (let before = 0; before !== below.size; ) {
    before = below.size
    for (const { pid, parent } of all) if (below.has(parent)) below.add(pid)
  }
  below.delete(String(process.pid))
  return all
    .filter(({ pid }) => below.has(pid) && commandOf(pid).includes('work.git'))
    .reduce((sum, { bytes }) => sum + bytes, 0)
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

interface Peaks {
  readonly answer: Result<unknown>
  readonly mib: number
}

async function measure(work: () => Promise<Result<unknown>>): Promise<Peaks> {
  let peak = 0
  const timer = setInterval(() => {
    peak = Math.max(peak, memoryOutside())
  }, 10)
  const answer = await work()
  clearInterval(timer)
  return { answer, mib: peak / MIB }
}

/** `BOMB_BYTES=100000000` makes it two gigabytes, which take minutes. */
const EACH_BYTES = Number(process.env.BOMB_BYTES ?? 12_500_000)
const TWENTY_OBJECTS = `head -c ${EACH_BYTES} /dev/zero >/tmp/z; for n in $(seq 20); do { echo $n; cat /tmp/z; } >f$n; done; rm /tmp/z`

test('twenty small objects that unpack to a quarter of a gigabyte take no more memory than a step may have', async () => {
  // Without a bound git takes five times the size of one object.
  const untrustedMemoryMib = Math.ceil((4 * EACH_BYTES) / MIB)
  const g = createGitFixture({ untrustedMemoryMib })
  const { answer, mib } = await measure(() => published(g, TWENTY_OBJECTS))
  expect(mib).toBeGreaterThan(0)
  expect(mib).toBeLessThanOrEqual(untrustedMemoryMib)
  expect(refusalOf(answer)).toMatch(/^invalid: .* takes more than the \d+ MiB of memory that a step/)
  expect(branchesOf(g)).toBe('refs/heads/main')
}, 600_000)

test('a machine keeps most of its memory', () => {
  const gib = 1024 ** 3
  expect([2, 8, 12, 64].map((size) => stepMemoryMib(size * gib))).toEqual([1_024, 1_024, 1_536, 2_048])
})

// ---- paths and bytes -----------------------------------------------------------------------------------------------

/** Ten folders in each folder, seven times: a hundred million files in nine objects. */
const NESTED_FOLDERS = `
t=$(b=$(echo x | git hash-object -w --stdin); for n in 0 1 2 3 4 5 6 7 8 9; do printf '100644 blob %s\\tf%s\\n' $b $n; done | git mktree)
for level in 1 2 3 4 5 6 7; do
  t=$(for n in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\\td%s\\n' $t $n; done | git mktree)
done
git checkout -q --detach
git update-ref refs/heads/${BRANCH} $(git commit-tree -p HEAD -m Nested $t)
`

test('folders that name a hundred million files are counted no further than they may be', async () => {
  const g = createGitFixture()
  expect(refusalOf(await published(g, NESTED_FOLDERS))).toMatch(/^invalid: .* changes more than 100000 files/)
  expect(branchesOf(g)).toBe('refs/heads/main')
})

test('work that unpacks to more than is searched is not published', async () => {
  const g = createGitFixture({ unpackedBytesMax: 3 * MIB })
  const refusal = refusalOf(await published(g, 'head -c 4000000 /dev/zero >zeros'))
  expect(refusal).toMatch(/^invalid: .* unpacks to more than 3 MiB/)
  expect(branchesOf(g)).toBe('refs/heads/main')
})
