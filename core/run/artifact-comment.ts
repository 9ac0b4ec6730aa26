/**
 * Builds the pull request comment that links the artifacts of a run in the bucket. The comment contains a marker, so
 * that repeated attempts create it only once.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { PROSE_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'

export interface PublishedArtifact {
  readonly name: string
  readonly url: string
  readonly isImage: boolean
}

/** Tells whether artifacts are to be uploaded. */
export function isUploadConfigured({ bucket, publicBaseUrl }: ServiceConfig['storage']): boolean {
  return bucket !== '' && publicBaseUrl !== ''
}

/** Each execution of a run has its own folder, because a retry may produce the same names. */
export function artifactKey(run: Pick<Run, 'id' | 'finishedAt'>, name: string): string {
  return `${run.id}/${(run.finishedAt ?? run.id).replace(/[^0-9A-Za-z]/g, '')}/${name}`
}

/** Percent-encodes each segment; a trailing slash of the base URL does not matter. */
export function artifactUrl(publicBaseUrl: string, key: string): string {
  return `${publicBaseUrl.replace(/\/+$/, '')}/${key.split('/').map(encodeURIComponent).join('/')}`
}

export function artifactMarker(run: Pick<Run, 'id' | 'finishedAt'>): string {
  return `<!-- switchyard:evidence ${artifactKey(run, '').slice(0, -1)} -->`
}

const moreNote = (count: number): string => `\n- and ${count} more`
/** Space for the line that counts the omitted artifacts. */
const SLACK_CHARS = 64

export function artifactComment(run: Run, items: readonly PublishedArtifact[]): string {
  const marker = artifactMarker(run)
  let text = `Left by the run on ${escapeMarkdown(run.ticket.identifier)}:\n`
  for (const [index, item] of items.entries()) {
    const line = `\n- ${item.isImage ? '!' : ''}[${escapeMarkdown(item.name)}](${item.url})`
    if (text.length + line.length + marker.length + SLACK_CHARS > PROSE_CHARS_MAX) {
      text += moreNote(items.length - index)
      break
    }
    text += line
  }
  return `${text}\n\n${marker}`
}

/** Escapes characters with which a name could end a link and start other Markdown. */
function escapeMarkdown(text: string): string {
  return text.replace(/[\\`*_{}[\]()#+!|<>&~@]/g, (sign) => `&#${sign.charCodeAt(0)};`).replace(/\s+/g, ' ')
}
