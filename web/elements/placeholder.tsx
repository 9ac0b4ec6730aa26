/** Stands where there is nothing to show: an empty state that explains, a skeleton while data is on its way. */

import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { HostRefusal } from '../../client/errors.ts'
import { messageOf } from '../../protocol/message-of.ts'
import { capitalized } from '../text/sentences.ts'
import { Button } from './button.tsx'
import { PageHead } from './page-head.tsx'

/** Sooner, a skeleton would only flicker. */
const SKELETON_AFTER_MS = 200

export interface EmptyProps {
  /** The missing thing. */
  readonly title: string
  /** The place of the search, its time, and what follows. */
  readonly children?: ComponentChildren
  /** The way to what helps. */
  readonly link?: { readonly to: string; readonly text: string; readonly isPrimary?: boolean }
  readonly button?: ComponentChildren
}

export function Empty({ title, children, link, button }: EmptyProps) {
  return (
    <div class="card empty">
      <strong>{title}</strong>
      {children !== undefined && <p>{children}</p>}
      {link !== undefined && (
        <a class={link.isPrimary === true ? 'button primary' : 'button'} href={link.to}>
          {link.text}
        </a>
      )}
      {button}
    </div>
  )
}

/** Stands in the place of a page whose thing the host does not know. */
export const NotFound = ({ noun, ...props }: EmptyProps & { readonly noun: string }) => (
  <>
    <PageHead title={`No such ${noun}`} />
    <Empty {...props} />
  </>
)

/** Whether the host answered that it does not know the thing. */
export const isNotFound = (error: unknown): boolean => error instanceof HostRefusal && error.status === 404

const WIDTHS = [50, 190, 120, 60] as const

export function Skeleton({ rows = 3 }: { readonly rows?: number }) {
  const isLate = useSignal(false)
  useEffect(() => {
    const timer = setTimeout(() => {
      isLate.value = true
    }, SKELETON_AFTER_MS)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div class={isLate.value ? 'card' : ''} role="group" aria-busy="true" aria-label="Loading">
      {isLate.value &&
        Array.from({ length: rows }, (_, row) => (
          <div class="skeleton-row" key={row}>
            {WIDTHS.map((width) => (
              <svg key={width} class="skeleton-bar" width={width} height="8" aria-hidden="true" />
            ))}
          </div>
        ))}
    </div>
  )
}

/** Says what went wrong with a request, and a button that sends it again. */
export function Failure({ error, retry }: { readonly error: unknown; readonly retry?: () => void }) {
  return (
    <div class="card empty" role="alert">
      <strong>This could not be loaded</strong>
      <p>{capitalized(messageOf(error))}</p>
      {retry !== undefined && <Button act={retry}>Try again</Button>}
    </div>
  )
}
