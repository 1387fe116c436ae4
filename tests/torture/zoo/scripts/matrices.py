"""What numpy leaves to OpenBLAS, with two threads, and what it does itself."""
import numpy

a = numpy.arange(250000, dtype=float).reshape(500, 500) % 97
b = a @ a.T
print(int(b.sum()), b.shape)
c = numpy.eye(300) * 5 + numpy.ones((300, 300))
print(round(float(numpy.linalg.slogdet(c)[1]), 6), numpy.sort(a.ravel())[::50000].tolist())
print(round(float(numpy.linalg.solve(c, numpy.arange(300.0)).sum()), 9), numpy.fft.fft(a[0]).real[:3].round(6).tolist())
