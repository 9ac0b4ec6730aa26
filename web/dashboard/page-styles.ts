/** Loads the styles of all pages but the overview, once, before the first of these pages is drawn. */

let loading: Promise<void> | undefined

export function loadPageStyles(): Promise<void> {
  loading ??= new Promise((resolve, reject) => {
    const address = document.querySelector('meta[name=page-styles]')?.getAttribute('content')
    const link = document.createElement('link')
    link.rel = 'stylesheet'
    link.href = address ?? ''
    link.onload = () => resolve()
    link.onerror = () => {
      loading = undefined
      link.remove()
      reject(new Error('the styles of the page could not be loaded'))
    }
    document.head.append(link)
  })
  return loading
}
