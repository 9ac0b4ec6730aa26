/** The artifact upload module copies the artifacts of completed runs to the bucket. */
import { defineHostModule } from '../host-context.ts'
import { ArtifactUpload } from './artifact-upload.ts'
import type { RunContext } from './run.machine.ts'
import { RUN } from './run.names.ts'

export const artifactUploadModule = defineHostModule({
  name: 'artifactUpload',
  create(context, { runRecords, runs, jobs }) {
    const { store, instant } = context
    const upload = new ArtifactUpload({
      ...context,
      keyValues: store.database.keyValues,
      runs: store.database.runs,
      artifacts: store.artifacts,
      placeOf: (run, codeHost) => jobs.runPulls.confirmedAt(run, codeHost),
      appendToRunLog: (runId, text) => runRecords.eventLog.appendText(runId, instant(), text),
    })
    return {
      participants: [upload],
      onStateChange: {
        [RUN]: ({ after, over }) => {
          if (over) upload.onRunEnded((after.context as RunContext).run)
        },
      },
      onViewChange({ view, key = '' }) {
        const run = view === 'pull confirmed' ? runs.latest(key) : undefined
        if (run !== undefined) upload.onRunEnded(run)
      },
      start: () => upload.start(),
      stop: () => upload.stop(),
      sizes: () => ({ artifactUploads: upload.size }),
    }
  },
})
