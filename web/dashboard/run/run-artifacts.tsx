/** The artifacts of a run: their names and sizes, downloads, and previews of what can be shown without acting. */
import { useSignal } from '@preact/signals'
import { artifactNames, waitsToPublish } from '../../../client/artifact-names.ts'
import { bundleAmong, fetchBundleCommand } from '../../../protocol/kept-bundle.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { PasteLine } from '../../elements/paste-line.tsx'
import { Failure, Skeleton } from '../../elements/placeholder.tsx'
import { formatSize } from '../../text/amounts.ts'
import { host } from '../state/host.ts'
import { useRequest } from '../state/use-request.ts'
import { PanelPart } from './panel-part.tsx'

const EVENTS_READ = 1_000
const TEXT_BYTES_MAX = 256 * 1024
const IMAGES = /\.(png|jpe?g|gif|webp|avif)$/i
const TEXTS =
  /\.(txt|log|md|json|jsonl|csv|tsv|xml|html?|ya?ml|toml|ini|diff|patch|[cm]?[jt]sx?|css|py|go|rs|sh)$/i

export const artifactAddress = (runId: string, name: string): string =>
  `/api/runs/${encodeURIComponent(runId)}/artifacts/${encodeURIComponent(name)}`

export function RunArtifacts({ run }: { readonly run: Run }) {
  const named = run.result?.artifacts.length ?? 0
  const isRead = named > 0 || waitsToPublish(run)
  const events = useRequest(`artifacts ${run.id} ${named} ${isRead}`, async (signal) =>
    isRead ? await host.readRunEvents({ id: run.id, tail: EVENTS_READ }, { signal }) : [],
  ).data
  const names = artifactNames(run, events ?? [])
  const sizes = sizesOf(events ?? [])
  if (names.length === 0) return null
  const bundle = bundleAmong(names)
  return (
    <PanelPart title="Artifacts" count={names.length}>
      <ul class="artifacts">
        {names.map((name) => (
          <li key={name}>
            <a
              class="ellipsis"
              href={artifactAddress(run.id, name)}
              download={name}
              title={`Download ${name}`}
            >
              {name}
            </a>
            {(IMAGES.test(name) || TEXTS.test(name)) && (
              <Button
                kind="plain-quiet"
                small
                label={`Preview ${name}`}
                act={() => showPreview(run.id, name)}
              >
                Preview
              </Button>
            )}
            <span class="faint number">{sizeText(sizes.get(name))}</span>
          </li>
        ))}
      </ul>
      {bundle !== undefined && (
        <>
          <p class="quiet">In a clone of the repository, fetch the commits that are not published:</p>
          <PasteLine text={fetchBundleCommand(run, bundle)} label="the command that fetches the commits" />
        </>
      )}
    </PanelPart>
  )
}

const sizeText = (size: number | undefined): string => (size === undefined ? '' : formatSize(size))

const sizesOf = (events: readonly RunEvent[]): Map<string, number> =>
  new Map(events.flatMap((event) => (event.type === 'artifact' ? [[event.name, event.size] as const] : [])))

const showPreview = (runId: string, name: string): Promise<void> =>
  showDialog(
    (close) => (
      <>
        <h2>{name}</h2>
        {IMAGES.test(name) ? (
          <img class="preview-image" src={artifactAddress(runId, name)} alt={name} />
        ) : (
          <TextPreview runId={runId} name={name} />
        )}
        <div class="dialog-acts">
          <a class="button" href={artifactAddress(runId, name)} download={name}>
            Download
          </a>
          <Button act={close} autoFocus>
            Close
          </Button>
        </div>
      </>
    ),
    { wide: true },
  )

/** Files of every kind are shown as text. */
function TextPreview({ runId, name }: { readonly runId: string; readonly name: string }) {
  const isShortened = useSignal(false)
  const { data, error } = useRequest(`${runId} ${name}`, async (signal) => {
    const reply = await host.readArtifact({ id: runId, name }, { signal })
    const decoder = new TextDecoder()
    let [text, bytes] = ['', 0]
    for await (const part of reply.body) {
      text += decoder.decode(part.subarray(0, TEXT_BYTES_MAX - bytes), { stream: true })
      bytes += part.byteLength
      if (bytes < TEXT_BYTES_MAX) continue
      isShortened.value = true
      break
    }
    return text
  })
  if (error !== undefined) return <Failure error={error} />
  if (data === undefined) return <Skeleton />
  return (
    <>
      <pre class="preview-text" tabIndex={0}>
        {data}
      </pre>
      {isShortened.value && <p class="quiet">The first {formatSize(TEXT_BYTES_MAX)} are shown.</p>}
    </>
  )
}
