/** Pull requests of the sample installation: a list, and one with checks, threads and a diff. */
import type { PullDetail, PullFile, PullListResponse, PullSummary } from '../../protocol/pulls.ts'
import type { SampleRecords } from './sample-records.ts'

const REMOTE = 'acme/api'

export function sampleSummary(
  sample: SampleRecords,
  number: number,
  state: PullSummary['state'],
  title: string,
): PullSummary {
  return {
    repo: REMOTE,
    remote: REMOTE,
    number,
    url: `https://code.example/${REMOTE}/pull/${number}`,
    title,
    state,
    author: 'switchyard',
    baseBranch: 'main',
    headBranch: `switchyard/eng-${number}-${title.toLowerCase().replaceAll(' ', '-')}`,
    createdAt: sample.ago(600),
    updatedAt: sample.ago(number % 90),
  }
}

/** Facts of a list by a code host; the last code host has none. */
const COUNTS: readonly Partial<PullSummary>[] = [
  { additions: 31, deletions: 9, changedFiles: 2, commentCount: 0, checksState: 'passed' },
  { additions: 4, deletions: 0, changedFiles: 1, commentCount: 1, checksState: 'running' },
  { additions: 118, deletions: 41, changedFiles: 3, commentCount: 12, checksState: 'failed' },
  {},
]

export function samplePulls(sample: SampleRecords): PullListResponse {
  return {
    pulls: [
      sampleSummary(sample, 487, 'merged', 'Make lease expiry monotonic across clock changes'),
      sampleSummary(sample, 485, 'open', 'Announce toasts to screen readers'),
      sampleSummary(sample, 482, 'open', 'Move session cookies to SameSite Strict'),
      sampleSummary(sample, 483, 'draft', 'Spike: gRPC for the worker channel'),
    ].map((pull, at) => ({ ...pull, ...COUNTS[at] })),
    errors: [{ repo: 'infra', remote: 'acme/infra', message: 'the token may not read it' }],
  }
}

const PATCH = `@@ -12,7 +12,8 @@ export function createSession(user: User): Session {
   const id = randomBytes(32).toString('base64url')
   const session = { id, user, createdAt: now() }
   sessions.set(id, session)
-  return { session, cookie: \`sid=\${id}; HttpOnly; SameSite=Lax\` }
+  const cookie = \`sid=\${id}; HttpOnly; Secure; SameSite=Strict; Path=/\`
+  return { session, cookie }
 }
 
 export function endSession(id: string): void {`

const file = (path: string, additions: number, deletions: number, patch?: string): PullFile => ({
  path,
  status: 'modified',
  additions,
  deletions,
  ...(patch === undefined ? {} : { patch }),
})

export function samplePull(sample: SampleRecords): PullDetail {
  const comment = (id: string, author: string, body: string) => ({
    id,
    author,
    body,
    createdAt: sample.ago(40),
    url: 'https://code.example/c',
  })
  return {
    ...sampleSummary(sample, 482, 'open', 'Move session cookies to SameSite Strict'),
    body: 'Sessions are read by this origin **only**.\n\n- `SameSite=Strict`\n- `Secure`\n\n<img src=x onerror="document.title=\'pwned\'">',
    draft: false,
    headSha: '5be2f01a9c',
    mergeableState: 'blocked',
    additions: 118,
    deletions: 41,
    changedFiles: 3,
    conversation: {
      comments: [comment('c1', 'mira', 'Does the **mobile** client send it?')],
      reviews: [{ id: 'r1', author: 'jonas', state: 'APPROVED', body: '', submittedAt: sample.ago(30) }],
      threads: [
        {
          id: 't1',
          resolved: false,
          path: 'src/auth/session.ts',
          line: 15,
          diffHunk: PATCH.split('\n').slice(0, 6).join('\n'),
          comments: [comment('t1c1', 'mira', 'Is `Secure` right on loopback?')],
        },
      ],
    },
    files: [
      file('src/auth/session.ts', 2, 1, PATCH),
      file(
        'src/auth/session.test.ts',
        116,
        40,
        '@@ -1,2 +1,2 @@\n-test("a")\n+test("a cookie is strict")\n end',
      ),
      file('docs/diagram.png', 0, 0),
    ],
    commits: [
      {
        sha: '5be2f01a9c',
        message: 'auth: make cookies strict',
        author: 'switchyard',
        committedAt: sample.ago(50),
      },
    ],
    mergeMethods: ['squash', 'rebase'],
    checks: [
      { name: 'unit', status: 'completed', conclusion: 'success', source: 'check-run' },
      {
        name: 'lint',
        status: 'completed',
        conclusion: 'failure',
        url: 'https://code.example/lint',
        source: 'check-run',
        report: 'src/auth/session.ts:41: Unexpected any\n1 error, 0 warnings',
      },
      { name: 'e2e', status: 'in_progress', source: 'check-run' },
    ],
  }
}
