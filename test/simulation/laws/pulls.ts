/** Laws about the pull requests of runs: the code host confirms them, and no worker decides about them. */
import type { Run } from '../../../protocol/run.ts'
import type { Law, LawView } from './law.ts'

/** The repository in every job of the simulation. */
const OWN_ADDRESS = 'https://code.example/o/web/pull/'

const confirmedByCodeHost: Law = {
  number: '27',
  sentence:
    'a run shows no address outside its repository, and only the code host confirms a pull request or its state',
  observe: (view, fail) => ({
    onCommitted: ({ changes }) => {
      for (const change of changes) {
        if (change.is === 'run' && change.row !== null) checkRun(view, change.row.value, fail)
        if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null) continue
        const { how, runId } = { how: '', runId: '', ...change.row.value }
        const run = how === 'expired' || how === 'lost' ? view.run(runId) : undefined
        if (run?.status === 'completed' && run.prUrl !== undefined && view.runOfPull(run.prUrl) !== runId)
          fail(`run ${runId} is completed by a pull request that it has not opened`, { run })
      }
    },
  }),
}

type Fail = (message: string, facts?: object) => void

function checkRun(view: LawView, { id, status, prUrl, prState, pull, result }: Run, fail: Fail): void {
  for (const url of [prUrl, result?.prUrl])
    if (url !== undefined && !url.startsWith(OWN_ADDRESS)) fail(`run ${id} shows a foreign address`, { url })
  if (prUrl === undefined) return
  const isOwn = view.runOfPull(prUrl) === id
  if (pull?.confirmed === true && !isOwn) fail(`run ${id} has a pull request of somebody else`, { prUrl })
  if (prState !== undefined && !view.wasPullIn(prUrl, prState))
    fail(`the pull request of ${id} never was ${prState}`, { prUrl, status })
}

export const pullLaws: readonly Law[] = [confirmedByCodeHost]
