/** The panel beside the log of a run: pull request, cost, placement, artifacts, memories, instructions. */
import { useSignal } from '@preact/signals'
import { artifactNames, waitsToPublish } from '../../../client/artifact-names.ts'
import { hasEnded } from '../../../client/run-events.ts'
import { formatMoney } from '../../../protocol/format.ts'
import { formatBytes } from '../../../protocol/format-bytes.ts'
import { bundleAmong, fetchBundleCommand } from '../../../protocol/kept-bundle.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { Glyph, glyphWord } from '../../elements/glyph.tsx'
import { PasteLine } from '../../elements/paste-line.tsx'
import { Failure, Skeleton } from '../../elements/placeholder.tsx'
import { countOf, formatShare, formatTokens } from '../../text/amounts.ts'
import { pullAddress } from '../addresses.ts'
import { openInspector, whyNoActor } from '../open-inspector.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { PanelPart } from './panel-part.tsx'

export function SidePanel({ run }: { readonly run: Run }) {
  return (
    <aside class="card run-panel" aria-label="About the run">
      {run.status === 'queued' && <PlacementPart run={run} />}
      <PullPart run={run} />
      <CostPart run={run} />
      {run.waitReason !== undefined && (
        <PanelPart title="What it waits for">
          <p class="quiet">{run.waitReason}</p>
        </PanelPart>
      )}
      {run.instructions !== undefined && run.instructions !== '' && (
        <PanelPart title="Instructions">
          <p class="run-instructions">{run.instructions}</p>
        </PanelPart>
      )}
      <RunArtifacts run={run} />
      <RunMemories run={run} />
      <PanelPart title="State chart">
        <Button small act={() => openInspector(`run/${run.id}`)} unavailable={whyNoActor(run)}>
          Open inspector
        </Button>
      </PanelPart>
    </aside>
  )
}

function PlacementPart({ run }: { readonly run: Run }) {
  const { data } = useRequest(`place ${run.id} ${run.queueReason}`, (signal) =>
    host.readPlacement({ id: run.id }, { signal }),
  )
  const candidates = data?.workers ?? []
  if (candidates.length === 0) return null
  return (
    <PanelPart title="Placement" count={countOf(candidates.length, 'worker')}>
      <table class="panel-table">
        <tbody>
          {candidates.map(({ id, name, free, reason }) => (
            <tr key={id}>
              <td class="mono">{name}</td>
              <td class="number quiet">{reason ?? `${free} free`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </PanelPart>
  )
}

function PullPart({ run }: { readonly run: Run }) {
  const { prUrl, prState, pull, ticket } = run
  const repo = Object.entries(config.value?.repos ?? {}).find(
    ([, { remote }]) => remote === pull?.remote,
  )?.[0]
  if (prUrl === undefined)
    return (
      <PanelPart title="Pull request">
        <p class="quiet">
          {hasEnded(run) ? 'The run has opened none.' : 'Opens when the work is published.'}
        </p>
      </PanelPart>
    )
  return (
    <PanelPart title="Pull request">
      <p>
        {prState !== undefined && <Glyph name={prState} />}{' '}
        {repo !== undefined && pull !== undefined ? (
          <a href={pullAddress(repo, pull.number)}>
            #{pull.number} {ticket.title}
          </a>
        ) : (
          <a href={prUrl} rel="noreferrer">
            {pull === undefined ? prUrl : `${pull.remote}#${pull.number}`}
          </a>
        )}
      </p>
      <p class="quiet">
        {prState === undefined ? 'Its state is not known yet.' : glyphWord(prState)}
        {pull !== undefined && (
          <>
            {' '}
            on <code>{pull.branch}</code>
          </>
        )}
      </p>
    </PanelPart>
  )
}

function CostPart({ run }: { readonly run: Run }) {
  const { costTotals, costs } = run
  if (costTotals === undefined)
    return (
      <PanelPart title="Cost" count="–">
        <p class="quiet">Nothing has been reported yet.</p>
      </PanelPart>
    )
  const { inputTokens, cacheReadTokens, cacheWriteTokens } = costTotals
  const all = inputTokens + cacheReadTokens + cacheWriteTokens
  const isExample = costs.some(({ source }) => source === 'example')
  return (
    <PanelPart title="Cost" count={formatMoney(costTotals)}>
      {costTotals.byModel.length > 0 && (
        <table class="panel-table">
          <thead>
            <tr>
              <th>Model</th>
              <th class="number">In</th>
              <th class="number">Out</th>
              <th class="number">Cost</th>
            </tr>
          </thead>
          <tbody>
            {costTotals.byModel.map((total) => (
              <tr key={total.model}>
                <td class="ellipsis">{total.model}</td>
                <td class="number">
                  {formatTokens(total.inputTokens + total.cacheReadTokens + total.cacheWriteTokens)}
                </td>
                <td class="number">{formatTokens(total.outputTokens)}</td>
                <td class="number">{formatMoney(total)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="faint">
        {isExample && 'These figures are made up by the scripted agent. '}
        {costTotals.estimated && '~ is estimated from a price table. '}
        {all > 0 && `${formatShare(cacheReadTokens / all)} of the input was read from a cache.`}
      </p>
    </PanelPart>
  )
}

// ---- artifacts -----------------------------------------------------------------------------------------------------

const EVENTS_READ = 1_000
/** Only the beginning of a longer text is shown. */
const TEXT_BYTES_MAX = 256 * 1024
const IMAGES = /\.(png|jpe?g|gif|webp|avif)$/i
const TEXTS =
  /\.(txt|log|md|json|jsonl|csv|tsv|xml|html?|ya?ml|toml|ini|diff|patch|[cm]?[jt]sx?|css|py|go|rs|sh)$/i

function RunArtifacts({ run }: { readonly run: Run }) {
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

const artifactAddress = (runId: string, name: string): string =>
  `/api/runs/${encodeURIComponent(runId)}/artifacts/${encodeURIComponent(name)}`

const sizeText = (size: number | undefined): string => (size === undefined ? '' : formatBytes(size))

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
      {isShortened.value && <p class="quiet">The first {formatBytes(TEXT_BYTES_MAX)} are shown.</p>}
    </>
  )
}

// ---- memories ------------------------------------------------------------------------------------------------------

const SHOWN = 5

/** The facts that earlier runs have recorded about the run's repository, those of this ticket first. */
function RunMemories({ run }: { readonly run: Run }) {
  const remote = run.pull?.remote ?? config.value?.repos[run.ticket.repo ?? '']?.remote
  const { data } = useRequest(`memories ${run.id} ${run.status}`, (signal) =>
    host.listMemories({}, { signal }),
  )
  const all = data?.repos[remote ?? ''] ?? []
  if (remote === undefined || all.length === 0) return null
  const isOwn = (ident: string | undefined) => ident === run.ticket.identifier
  const shown = [...all].sort((a, b) => Number(isOwn(b.ident)) - Number(isOwn(a.ident))).slice(0, SHOWN)
  return (
    <PanelPart title="Memories" count={all.length}>
      <ul class="run-memories">
        {shown.map(({ id, text, ident }) => (
          <li key={id}>
            {text} {isOwn(ident) && <span class="tag">this ticket</span>}
          </li>
        ))}
      </ul>
      <a href={`/memories?repo=${encodeURIComponent(remote)}`}>All memories of {remote}</a>
    </PanelPart>
  )
}
