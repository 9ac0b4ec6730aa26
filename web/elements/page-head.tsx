/**
 * The head of a page with its one h1, and of a section of it. The h1 has the focus after a change of page, and names
 * the document.
 */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

export interface PageHeadProps {
  readonly title: string
  /** The name of the document, where the title alone does not say which page it is. */
  readonly documentName?: string
  /** Stands beside the title: totals, a state. */
  readonly beside?: ComponentChildren
  /** At most one primary button among them. */
  readonly acts?: ComponentChildren
}

/** The name of the page in view; undefined until it has drawn its head. */
export const documentName = signal<string | undefined>(undefined)

let isFirstPage = true

export function PageHead({ title, documentName: name = title, beside, acts }: PageHeadProps) {
  const head = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    // The browser has placed the focus when it loaded the document.
    if (!isFirstPage) head.current?.focus({ preventScroll: true })
    isFirstPage = false
    return () => {
      documentName.value = undefined
    }
  }, [])
  useEffect(() => {
    documentName.value = name
  }, [name])
  return (
    <header class="page-head">
      <h1 tabIndex={-1} ref={head}>
        {title}
      </h1>
      {beside !== undefined && <span class="quiet">{beside}</span>}
      {acts !== undefined && <div class="acts">{acts}</div>}
    </header>
  )
}

export interface SectionProps {
  readonly title: string
  readonly count?: ComponentChildren
  /** At the right end: the order, a link to all. */
  readonly aside?: ComponentChildren
  readonly id?: string
  readonly children: ComponentChildren
}

export function Section({ title, count, aside, id, children }: SectionProps) {
  return (
    <section class="section" id={id}>
      <div class="section-head">
        <h2>{title}</h2>
        {count !== undefined && <span class="section-count">{count}</span>}
        {aside !== undefined && <span class="aside">{aside}</span>}
      </div>
      {children}
    </section>
  )
}
