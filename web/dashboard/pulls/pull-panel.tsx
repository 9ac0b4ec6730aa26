/** The panel beside a pull request: merging, checks, files, commits. */
import { type CheckOutcome, outcomeOfCheck } from '../../../protocol/pull-checks.ts'
import type { PullDetail } from '../../../protocol/pulls.ts'
import { Button } from '../../elements/button.tsx'
import { Glyph, type StateGlyph } from '../../elements/glyph.tsx'
import { Age } from '../../elements/moments.tsx'
import { shortenMiddle } from '../../text/shorten.ts'
import type { DiffState } from '../diff/diff-state.ts'
import { plainText } from '../run/log/clean-text.ts'
import { PanelPart } from '../run/panel-part.tsx'
import { checksSummary, sortedChecks, whyNotMerge } from './check-words.ts'

const PATH_CHARS_MAX = 34
const COMMITS_SHOWN = 10

const CHECK_GLYPHS: Readonly<Record<CheckOutcome, StateGlyph>> = {
  passed: 'completed',
  failed: 'failed',
  running: 'running',
  skipped: 'cancelled',
}

export interface PullPanelProps {
  readonly pull: PullDetail
  readonly state: DiffState
  readonly showFile: (file: PullDetail['files'][number]) => void
  readonly reload: () => void
}

export function PullPanel({ pull, state, showFile, reload }: PullPanelProps) {
  const reason = whyNotMerge(pull)
  const checks = sortedChecks(pull.checks)
  const firstFailed = checks.find(({ report }) => report !== undefined)
  return (
    <aside class="card run-panel" aria-label="About the pull request">
      <PanelPart title="Merging">
        <p class="quiet">{reason ?? 'Nothing is known against it.'}</p>
      </PanelPart>
      <PanelPart title="Checks" count={pull.checks.length}>
        <p class="quiet">{checksSummary(pull.checks)}.</p>
        {pull.checksLookupFailed === true && (
          <p class="tone-warn">
            Some checks could not be read.{' '}
            <Button kind="link" act={reload}>
              Ask again
            </Button>
          </p>
        )}
        <ul class="check-list">
          {checks.map((check) => (
            <li key={`${check.source} ${check.name}`}>
              <Glyph name={CHECK_GLYPHS[outcomeOfCheck(check)]} alone label={outcomeOfCheck(check)} />
              {check.url === undefined ? (
                <span class="ellipsis">{check.name}</span>
              ) : (
                <a class="ellipsis" href={check.url} rel="noreferrer">
                  {check.name}
                </a>
              )}
              <span class="faint">{check.conclusion ?? check.status.replace('_', ' ')}</span>
              {check.report !== undefined && (
                <details open={check === firstFailed}>
                  <summary>What it reported</summary>
                  {/* A person scrolls it by keys too. */}
                  <pre class="check-report" tabIndex={0} aria-label={`Report of ${check.name}`}>
                    {plainText(check.report)}
                  </pre>
                </details>
              )}
            </li>
          ))}
        </ul>
      </PanelPart>
      <PanelPart title="Files" count={pull.changedFiles}>
        <ul class="file-list">
          {pull.files.map((file) => (
            <li key={file.path}>
              <Button kind="link" label={`Show ${file.path}`} act={() => showFile(file)}>
                <span class={state.isViewed(file) ? 'faint' : ''}>
                  {shortenMiddle(file.path, PATH_CHARS_MAX)}
                </span>
              </Button>
              <span class="tone-good">+{file.additions}</span>
              <span class="tone-bad">−{file.deletions}</span>
            </li>
          ))}
        </ul>
      </PanelPart>
      <PanelPart title="Commits" count={pull.commits.length}>
        <ul class="commit-list">
          {pull.commits.slice(-COMMITS_SHOWN).map(({ sha, message, committedAt }) => (
            <li key={sha}>
              <code class="faint">{sha.slice(0, 7)}</code>{' '}
              <span title={message}>{message.split('\n')[0]}</span>{' '}
              <span class="faint">
                <Age since={committedAt} />
              </span>
            </li>
          ))}
        </ul>
      </PanelPart>
    </aside>
  )
}
